#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "backend/backend.h"

namespace flywheel::bench {

// Passes every op on to another backend and adds up the time it took, by op.
class TimingBackend : public Backend {
 public:
  explicit TimingBackend(Backend& inner) : inner_(inner) {}

  const std::map<std::string, double>& seconds() const { return seconds_; }
  void reset() { seconds_.clear(); }

  DeviceKind device() const override { return inner_.device(); }
  std::string description() const override { return inner_.description(); }
  std::unique_ptr<DeviceMemory> allocate(std::int64_t bytes, const std::string& name) override {
    return inner_.allocate(bytes, name);
  }
  void upload(const TensorView& out, const void* host) override { inner_.upload(out, host); }
  void download(void* host, const TensorView& x) override { inner_.download(host, x); }
  void synchronize() override { inner_.synchronize(); }
  bool interleaves_weights() const override { return inner_.interleaves_weights(); }
  std::int64_t attention_tile() const override { return inner_.attention_tile(); }
  void upload_plan(const AttentionPlan& plan) override { inner_.upload_plan(plan); }

#define FLYWHEEL_TIMED(op, Args)          \
  void op(const Args& args) override {    \
    timed(#op, [&] { inner_.op(args); }); \
  }
  FLYWHEEL_TIMED(bias_backward, BiasBackward)
  FLYWHEEL_TIMED(embedding_forward, EmbeddingForward)
  FLYWHEEL_TIMED(embedding_backward, EmbeddingBackward)
  FLYWHEEL_TIMED(rms_norm_forward, RmsNormForward)
  FLYWHEEL_TIMED(add_rms_norm_forward, AddRmsNormForward)
  FLYWHEEL_TIMED(rms_norm_backward, RmsNormBackward)
  FLYWHEEL_TIMED(layer_norm_forward, LayerNormForward)
  FLYWHEEL_TIMED(layer_norm_backward, LayerNormBackward)
  FLYWHEEL_TIMED(split_heads_forward, SplitHeadsForward)
  FLYWHEEL_TIMED(split_heads_backward, SplitHeadsBackward)
  FLYWHEEL_TIMED(attention_forward, AttentionForward)
  FLYWHEEL_TIMED(attention_backward, AttentionBackward)
  FLYWHEEL_TIMED(kv_cache_write, KvCacheWrite)
  FLYWHEEL_TIMED(attention_decode, AttentionDecode)
  FLYWHEEL_TIMED(gate_mix_forward, GateMixForward)
  FLYWHEEL_TIMED(gate_mix_backward, GateMixBackward)
  FLYWHEEL_TIMED(swiglu_forward, SwigluForward)
  FLYWHEEL_TIMED(swiglu_backward, SwigluBackward)
  FLYWHEEL_TIMED(route_experts, RouteExperts)
  FLYWHEEL_TIMED(grouped_matmul, GroupedMatmul)
  FLYWHEEL_TIMED(combine_experts, CombineExperts)
  FLYWHEEL_TIMED(gelu_forward, GeluForward)
  FLYWHEEL_TIMED(gelu_backward, GeluBackward)
  FLYWHEEL_TIMED(cross_entropy, CrossEntropy)
  FLYWHEEL_TIMED(adamw_step, AdamWStep)
  FLYWHEEL_TIMED(round_weights, RoundWeights)
  FLYWHEEL_TIMED(sum, Sum)
  FLYWHEEL_TIMED(sum_of_squares, SumOfSquares)
  FLYWHEEL_TIMED(add, Add)
  FLYWHEEL_TIMED(scale, Scale)
  FLYWHEEL_TIMED(fill, Fill)
  FLYWHEEL_TIMED(copy, Copy)
#undef FLYWHEEL_TIMED

  void matmul(const Matmul& args) override {
    const char* kind = args.accumulate && args.transpose_a ? "wgrad"
                       : args.transpose_b                  ? "forward"
                                                           : "dgrad";
    timed(std::string("matmul ") + kind, [&] { inner_.matmul(args); });
  }

 private:
  template <class Call>
  void timed(const std::string& op, const Call& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    seconds_[op] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Backend& inner_;
  std::map<std::string, double> seconds_;
};

}  // namespace flywheel::bench
