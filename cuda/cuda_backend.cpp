#include "cuda/cuda_backend.h"

#include <fmt/format.h>

#include "backend/memory_plan.h"
#include "core/error.h"
#include "cuda/attention_plans.h"
#include "cuda/backend_stream.h"
#include "cuda/device/check.h"
#include "cuda/graph.h"
#include "cuda/kernels/kernels.h"
#include "cuda/matmul.h"
#include "cuda/memory.h"
#include "cuda/peak_flops.h"
#include "cuda/uploads.h"

namespace flywheel {
namespace {

constexpr std::int64_t kWorkspaceBytes = kGpuWorkspaceBytes / 2;  // of kernels, of cuBLASLt

int selected(int device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  require(status == cudaSuccess && count > 0, ErrorKind::Device,
          "this machine has no GPU that CUDA can use ({}); take another one, or the CPU",
          cudaGetErrorString(status));
  require(device >= 0 && device < count, ErrorKind::Device,
          "no CUDA device {}; this machine has 0 to {}", device, count - 1);
  cuda::check(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties;
  cuda::check(cudaGetDeviceProperties(&properties, device), "device properties");
  return properties;
}

std::optional<cuda::MatmulAlgorithms> algorithms_in(const std::filesystem::path& file, int device) {
  if (file.empty()) return std::nullopt;
  return cuda::MatmulAlgorithms(file, properties_of(device).name);
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, const CudaOptions& options)
      : device_(selected(device)),
        workspace_memory_(kWorkspaceBytes, "workspace of the CUDA kernels"),
        matmul_memory_(kWorkspaceBytes, "workspace of cuBLASLt"),
        workspace_{workspace_memory_.data(), kWorkspaceBytes},
        matmul_workspace_{matmul_memory_.data(), kWorkspaceBytes},
        matmuls_(algorithms_in(options.matmul_algorithms, device)) {
    if (options.graphs) graph_.emplace();
  }

  DeviceKind device() const override { return DeviceKind::Cuda; }
  std::string description() const override {
    const cudaDeviceProp properties = properties_of(device_);
    return fmt::format("CUDA device {}, {}, sm_{}{}", device_, properties.name, properties.major,
                       properties.minor);
  }

  std::unique_ptr<DeviceMemory> allocate(std::int64_t bytes, const std::string& name) override {
    auto memory = std::make_unique<cuda::Memory>(bytes, name);
    if (bytes > 0) {
      cuda::check(
          cudaMemsetAsync(memory->data(), 0, static_cast<std::size_t>(bytes), stream_.get()),
          "memset");
    }
    return memory;
  }
  void upload(const TensorView& out, const void* host) override {
    uploads_.queue(out.data, host, out.bytes(), stream_);
  }
  void download(void* host, const TensorView& x) override {
    cuda::check(cudaMemcpyAsync(host, x.data, static_cast<std::size_t>(x.bytes()),
                                cudaMemcpyDeviceToHost, stream_.get()),
                "download");
    stream_.synchronize();
  }
  void synchronize() override { stream_.synchronize(); }
  void queue_pass(const std::function<void()>& pass) override {
    graph_ ? graph_->queue(pass, stream_) : pass();
  }
  cuda::Stream& stream() { return stream_; }

  std::int64_t attention_tile() const override { return cuda::kAttentionTile; }
  void upload_plan(const AttentionPlan& plan) override { plans_.upload(plan, uploads_, stream_); }

  void matmul(const Matmul& args) override { matmuls_.run(args, matmul_workspace_, stream_.get()); }
  void bias_backward(const BiasBackward& args) override {
    cuda::bias_backward(args, workspace_, stream_.get());
  }
  void embedding_forward(const EmbeddingForward& args) override {
    cuda::embedding_forward(args, stream_.get());
  }
  void embedding_backward(const EmbeddingBackward& args) override {
    cuda::embedding_backward(args, workspace_, stream_.get());
  }
  void rms_norm_forward(const RmsNormForward& args) override {
    cuda::rms_norm_forward(args, stream_.get());
  }
  void add_rms_norm_forward(const AddRmsNormForward& args) override {
    cuda::add_rms_norm_forward(args, stream_.get());
  }
  void rms_norm_backward(const RmsNormBackward& args) override {
    cuda::rms_norm_backward(args, workspace_, stream_.get());
  }
  void layer_norm_forward(const LayerNormForward& args) override {
    cuda::layer_norm_forward(args, stream_.get());
  }
  void layer_norm_backward(const LayerNormBackward& args) override {
    cuda::layer_norm_backward(args, workspace_, stream_.get());
  }
  void split_heads_forward(const SplitHeadsForward& args) override {
    cuda::split_heads_forward(args, stream_.get());
  }
  void split_heads_backward(const SplitHeadsBackward& args) override {
    cuda::split_heads_backward(args, workspace_, stream_.get());
  }
  void attention_forward(const AttentionForward& args) override {
    cuda::attention_forward(args, plans_.at(*args.plan), workspace_, stream_.get());
  }
  void attention_backward(const AttentionBackward& args) override {
    cuda::attention_backward(args, plans_.at(*args.plan), workspace_, stream_.get());
  }
  void kv_cache_write(const KvCacheWrite& args) override {
    cuda::kv_cache_write(args, stream_.get());
  }
  void attention_decode(const AttentionDecode& args) override {
    cuda::attention_decode(args, workspace_, stream_.get());
  }
  void route_experts(const RouteExperts& args) override {
    cuda::route_experts(args, workspace_, stream_.get());
  }
  void combine_experts(const CombineExperts& args) override {
    cuda::combine_experts(args, stream_.get());
  }
  void gate_mix_forward(const GateMixForward& args) override {
    cuda::gate_mix_forward(args, stream_.get());
  }
  void gate_mix_backward(const GateMixBackward& args) override {
    cuda::gate_mix_backward(args, stream_.get());
  }
  void swiglu_forward(const SwigluForward& args) override {
    cuda::swiglu_forward(args, stream_.get());
  }
  void swiglu_backward(const SwigluBackward& args) override {
    cuda::swiglu_backward(args, stream_.get());
  }
  void gelu_forward(const GeluForward& args) override { cuda::gelu_forward(args, stream_.get()); }
  void gelu_backward(const GeluBackward& args) override {
    cuda::gelu_backward(args, stream_.get());
  }
  void cross_entropy(const CrossEntropy& args) override {
    cuda::cross_entropy(args, stream_.get());
  }
  void adamw_step(const AdamWStep& args) override { cuda::adamw_step(args, stream_.get()); }
  void round_weights(const RoundWeights& args) override {
    cuda::round_weights(args, stream_.get());
  }
  void sum(const Sum& args) override { cuda::sum(args, workspace_, stream_.get()); }
  void sum_of_squares(const SumOfSquares& args) override {
    cuda::sum_of_squares(args, workspace_, stream_.get());
  }
  void add(const Add& args) override { cuda::add(args, stream_.get()); }
  void scale(const Scale& args) override { cuda::scale(args, stream_.get()); }
  void fill(const Fill& args) override { cuda::fill(args, stream_.get()); }
  void copy(const Copy& args) override { cuda::copy(args, stream_.get()); }

 private:
  int device_;
  cuda::Uploads uploads_;  // outlives the stream's copies
  cuda::Stream stream_;
  cuda::Memory workspace_memory_;
  cuda::Memory matmul_memory_;
  cuda::Workspace workspace_;
  cuda::Workspace matmul_workspace_;
  cuda::MatmulPlans matmuls_;
  cuda::AttentionPlans plans_;
  std::optional<cuda::PassGraph> graph_;
};

}  // namespace

cuda::Stream& cuda::stream_of(Backend& backend) {
  auto* cuda = dynamic_cast<CudaBackend*>(&backend);
  require(cuda != nullptr, ErrorKind::Internal, "{} has no CUDA stream", backend.description());
  return cuda->stream();
}

std::unique_ptr<Backend> make_cuda_backend(int device, const CudaOptions& options) {
  return std::make_unique<CudaBackend>(device, options);
}

double cuda_peak_flops(int device, DType type) {
  return cuda::peak_flops_of(properties_of(selected(device)).name, type);
}

}  // namespace flywheel
