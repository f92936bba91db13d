#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backend/op_args.h"

namespace flywheel {

// Memory of one device, released with the object.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::int64_t bytes() const = 0;
};

// The seam between the model and a device. Ops never allocate, write to destinations that the
// caller gives, and run in the order of the calls, perhaps asynchronously; synchronize() waits.
// Callers go through the fronts in backend/ops.h, which check the arguments once for all devices;
// an implementation may rely on them.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceKind device() const = 0;
  virtual std::string description() const = 0;  // "CPU, AVX3, 2 threads"

  // Zeroed memory, aligned for every op. `name` shows in the error when there is not enough.
  virtual std::unique_ptr<DeviceMemory> allocate(std::int64_t bytes, const std::string& name) = 0;
  // The same, but only what is written takes memory: there may be less than `bytes`. Error Config
  // on a device without such memory.
  virtual std::unique_ptr<DeviceMemory> reserve(std::int64_t bytes, const std::string& name);
  // Host memory to `out` and back; `out` is contiguous. The host side may be reused on return.
  virtual void upload(const TensorView& out, const void* host) = 0;
  virtual void download(void* host, const TensorView& x) = 0;
  virtual void synchronize() = 0;
  // Calls `pass`, which queues ops and neither uploads, downloads nor waits. A device may record
  // what it queues, and queue it as one.
  virtual void queue_pass(const std::function<void()>& pass) { pass(); }

  // Whether products of few rows are faster with Q8_0x16 than with Q8_0.
  virtual bool interleaves_weights() const { return false; }

  // Ranks in a tile of an AttentionPlan that this device's kernels walk.
  virtual std::int64_t attention_tile() const = 0;
  // Called when a plan was made anew, before the ops that use it.
  virtual void upload_plan(const AttentionPlan& plan) = 0;

  virtual void matmul(const Matmul&) = 0;
  virtual void bias_backward(const BiasBackward&) = 0;
  virtual void embedding_forward(const EmbeddingForward&) = 0;
  virtual void embedding_backward(const EmbeddingBackward&) = 0;
  virtual void rms_norm_forward(const RmsNormForward&) = 0;
  virtual void add_rms_norm_forward(
      const AddRmsNormForward&);  // default: add, then rms_norm_forward
  virtual void rms_norm_backward(const RmsNormBackward&) = 0;
  virtual void layer_norm_forward(const LayerNormForward&) = 0;
  virtual void layer_norm_backward(const LayerNormBackward&) = 0;
  virtual void split_heads_forward(const SplitHeadsForward&) = 0;
  virtual void split_heads_backward(const SplitHeadsBackward&) = 0;
  virtual void attention_forward(const AttentionForward&) = 0;
  virtual void attention_backward(const AttentionBackward&) = 0;
  virtual void kv_cache_write(const KvCacheWrite&) = 0;
  virtual void attention_decode(const AttentionDecode&) = 0;
  virtual void gate_mix_forward(const GateMixForward&) = 0;
  virtual void gate_mix_backward(const GateMixBackward&) = 0;
  virtual void swiglu_forward(const SwigluForward&) = 0;
  virtual void swiglu_backward(const SwigluBackward&) = 0;
  virtual void route_experts(const RouteExperts&) = 0;
  virtual void grouped_matmul(const GroupedMatmul&);  // default: a matmul for each group
  virtual void combine_experts(const CombineExperts&) = 0;
  virtual void gelu_forward(const GeluForward&) = 0;
  virtual void gelu_backward(const GeluBackward&) = 0;
  virtual void cross_entropy(const CrossEntropy&) = 0;
  virtual void adamw_step(const AdamWStep&) = 0;
  virtual void round_weights(const RoundWeights&);  // default: Error Internal, not in bf16
  virtual void sum(const Sum&) = 0;
  virtual void sum_of_squares(const SumOfSquares&) = 0;
  virtual void add(const Add&) = 0;
  virtual void scale(const Scale&) = 0;
  virtual void fill(const Fill&) = 0;
  virtual void copy(const Copy&) = 0;
};

}  // namespace flywheel
