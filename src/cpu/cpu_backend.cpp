#include "cpu/cpu_backend.h"

#include <fmt/format.h>

#include <cstring>

#include "core/error.h"
#include "core/thread_pool.h"
#include "cpu/attention.h"
#include "cpu/kernels.h"
#include "cpu/memory.h"
#include "cpu/rows.h"

namespace flywheel {
namespace {

void require_vector_extensions() {
#if defined(__x86_64__)
  require(
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), ErrorKind::Device,
      "this CPU lacks AVX2 or FMA, which the CPU backend needs; use a machine from 2013 or later");
#endif
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads) : pool_(threads), workspace_(pool_.size()) {}

  DeviceKind device() const override { return DeviceKind::Cpu; }
  std::string description() const override {
    return fmt::format("CPU, {}, {} thread{}", cpu::simd_target(), pool_.size(),
                       pool_.size() == 1 ? "" : "s");
  }

  std::unique_ptr<DeviceMemory> reserve(std::int64_t bytes, const std::string& name) override {
    return std::make_unique<cpu::Memory>(bytes, name, cpu::Memory::Pages::OnWrite);
  }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t bytes, const std::string& name) override {
    return std::make_unique<cpu::Memory>(bytes, name);
  }
  void upload(const TensorView& out, const void* host) override {
    std::memcpy(out.data, host, static_cast<std::size_t>(out.bytes()));
  }
  void download(void* host, const TensorView& x) override {
    std::memcpy(host, x.data, static_cast<std::size_t>(x.bytes()));
  }
  void synchronize() override {}

  bool interleaves_weights() const override { return cpu::multiplies_int8(); }

  std::int64_t attention_tile() const override { return cpu::kAttentionTile; }
  void upload_plan(const AttentionPlan& /*plan*/) override {}

  void matmul(const Matmul& args) override { cpu::matmul(args, pool_, workspace_); }
  void bias_backward(const BiasBackward& args) override {
    cpu::bias_backward(args, pool_, workspace_);
  }
  void embedding_forward(const EmbeddingForward& args) override {
    cpu::embedding_forward(args, pool_);
  }
  void embedding_backward(const EmbeddingBackward& args) override {
    cpu::embedding_backward(args, pool_);
  }
  void rms_norm_forward(const RmsNormForward& args) override { cpu::rms_norm_forward(args, pool_); }
  void add_rms_norm_forward(const AddRmsNormForward& args) override {
    cpu::add_rms_norm_forward(args, pool_);
  }
  void rms_norm_backward(const RmsNormBackward& args) override {
    cpu::rms_norm_backward(args, pool_, workspace_);
  }
  void layer_norm_forward(const LayerNormForward& args) override {
    cpu::layer_norm_forward(args, pool_);
  }
  void layer_norm_backward(const LayerNormBackward& args) override {
    cpu::layer_norm_backward(args, pool_, workspace_);
  }
  void split_heads_forward(const SplitHeadsForward& args) override {
    cpu::split_heads_forward(args, pool_);
  }
  void split_heads_backward(const SplitHeadsBackward& args) override {
    cpu::split_heads_backward(args, pool_, workspace_);
  }
  void attention_forward(const AttentionForward& args) override {
    cpu::attention_forward(args, pool_, attention_workspace_);
  }
  void attention_backward(const AttentionBackward& args) override {
    if (args.cos) {
      cpu::check_indices("attention_backward: positions", args.positions, args.cos.shape[0]);
    }
    cpu::attention_backward(args, pool_, attention_workspace_);
  }
  void kv_cache_write(const KvCacheWrite& args) override { cpu::kv_cache_write(args, pool_); }
  void attention_decode(const AttentionDecode& args) override {
    cpu::attention_decode(args, pool_, workspace_);
  }
  void gate_mix_forward(const GateMixForward& args) override { cpu::gate_mix_forward(args, pool_); }
  void gate_mix_backward(const GateMixBackward& args) override {
    cpu::gate_mix_backward(args, pool_);
  }
  void swiglu_forward(const SwigluForward& args) override { cpu::swiglu_forward(args, pool_); }
  void swiglu_backward(const SwigluBackward& args) override { cpu::swiglu_backward(args, pool_); }
  void route_experts(const RouteExperts& args) override { cpu::route_experts(args, pool_); }
  void combine_experts(const CombineExperts& args) override { cpu::combine_experts(args, pool_); }
  void gelu_forward(const GeluForward& args) override { cpu::gelu_forward(args, pool_); }
  void gelu_backward(const GeluBackward& args) override { cpu::gelu_backward(args, pool_); }
  void cross_entropy(const CrossEntropy& args) override { cpu::cross_entropy(args, pool_); }
  void adamw_step(const AdamWStep& args) override { cpu::adamw_step(args, pool_); }
  void sum(const Sum& args) override { cpu::sum(args); }
  void sum_of_squares(const SumOfSquares& args) override {
    cpu::sum_of_squares(args, pool_, workspace_);
  }
  void add(const Add& args) override { cpu::add(args, pool_); }
  void scale(const Scale& args) override { cpu::scale(args, pool_); }
  void fill(const Fill& args) override { cpu::fill(args, pool_); }
  void copy(const Copy& args) override { cpu::copy(args, pool_); }

 private:
  ThreadPool pool_;
  cpu::Workspace workspace_;
  cpu::AttentionWorkspace attention_workspace_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  require_vector_extensions();
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace flywheel
