#pragma once

#include "backend/op_args.h"
#include "cuda/device/runtime.h"
#include "cuda/kernels/attention_plan.h"

// The ops on CUDA, one function each: it queues its kernels on the stream and returns. Arguments
// were checked by the fronts. Activations are f32 or bf16, all tensors of an op alike; statistics
// (rstd, mean, losses) and weight gradients are f32. The same arguments give the same bits.
namespace flywheel::cuda {

// Scratch memory of the ops on a stream.
struct Workspace {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};
// `count` elements of T behind the first `offset` elements. Error Shape if they do not fit.
void check_scratch(const Workspace& workspace, std::int64_t bytes);
template <class T>
T* scratch(const Workspace& workspace, std::int64_t offset, std::int64_t count) {
  check_scratch(workspace, (offset + count) * static_cast<std::int64_t>(sizeof(T)));
  return reinterpret_cast<T*>(workspace.data) + offset;
}

void bias_backward(const BiasBackward& args, const Workspace& workspace, cudaStream_t stream);
void embedding_forward(const EmbeddingForward& args, cudaStream_t stream);
void embedding_backward(const EmbeddingBackward& args, const Workspace& workspace,
                        cudaStream_t stream);

void rms_norm_forward(const RmsNormForward& args, cudaStream_t stream);
void add_rms_norm_forward(const AddRmsNormForward& args, cudaStream_t stream);
void rms_norm_backward(const RmsNormBackward& args, const Workspace& workspace,
                       cudaStream_t stream);
void layer_norm_forward(const LayerNormForward& args, cudaStream_t stream);
void layer_norm_backward(const LayerNormBackward& args, const Workspace& workspace,
                         cudaStream_t stream);

void split_heads_forward(const SplitHeadsForward& args, cudaStream_t stream);
void split_heads_backward(const SplitHeadsBackward& args, const Workspace& workspace,
                          cudaStream_t stream);
// Head sizes are multiples of 8 up to 256 (Error Shape). dk and dv sum over the query heads that
// share them, in order. On tensor cores with bf16, head sizes 64 and 128, rows aligned to 16 bytes;
// moba in float arithmetic.
void attention_forward(const AttentionForward& args, const DevicePlan& plan,
                       const Workspace& workspace, cudaStream_t stream);
void attention_backward(const AttentionBackward& args, const DevicePlan& plan,
                        const Workspace& workspace, cudaStream_t stream);
void kv_cache_write(const KvCacheWrite& args, cudaStream_t stream);
// Head sizes up to 256 (Error Shape).
void attention_decode(const AttentionDecode& args, const Workspace& workspace, cudaStream_t stream);
void gate_mix_forward(const GateMixForward& args, cudaStream_t stream);
void gate_mix_backward(const GateMixBackward& args, cudaStream_t stream);

void swiglu_forward(const SwigluForward& args, cudaStream_t stream);
void swiglu_backward(const SwigluBackward& args, cudaStream_t stream);
void gelu_forward(const GeluForward& args, cudaStream_t stream);
void gelu_backward(const GeluBackward& args, cudaStream_t stream);

// Logits and weights are f32.
void route_experts(const RouteExperts& args, const Workspace& workspace, cudaStream_t stream);
void combine_experts(const CombineExperts& args, cudaStream_t stream);

void cross_entropy(const CrossEntropy& args, cudaStream_t stream);

void adamw_step(const AdamWStep& args, cudaStream_t stream);
void round_weights(const RoundWeights& args, cudaStream_t stream);
void sum(const Sum& args, const Workspace& workspace, cudaStream_t stream);
void sum_of_squares(const SumOfSquares& args, const Workspace& workspace, cudaStream_t stream);

void add(const Add& args, cudaStream_t stream);
void scale(const Scale& args, cudaStream_t stream);
void fill(const Fill& args, cudaStream_t stream);
void copy(const Copy& args, cudaStream_t stream);

}  // namespace flywheel::cuda
