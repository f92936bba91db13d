#pragma once

#include "backend/backend.h"

// The fronts of the ops: each checks rank, shape, dtype, device and aliasing, then calls the
// backend. A fault throws Error Shape that names op, argument, what was expected and what came.
namespace flywheel::ops {

void matmul(Backend& backend, const Matmul& args);
void bias_backward(Backend& backend, const BiasBackward& args);
void embedding_forward(Backend& backend, const EmbeddingForward& args);
void embedding_backward(Backend& backend, const EmbeddingBackward& args);
void rms_norm_forward(Backend& backend, const RmsNormForward& args);
void add_rms_norm_forward(Backend& backend, const AddRmsNormForward& args);
void rms_norm_backward(Backend& backend, const RmsNormBackward& args);
void layer_norm_forward(Backend& backend, const LayerNormForward& args);
void layer_norm_backward(Backend& backend, const LayerNormBackward& args);
void split_heads_forward(Backend& backend, const SplitHeadsForward& args);
void split_heads_backward(Backend& backend, const SplitHeadsBackward& args);
void attention_forward(Backend& backend, const AttentionForward& args);
void attention_backward(Backend& backend, const AttentionBackward& args);
void kv_cache_write(Backend& backend, const KvCacheWrite& args);
void attention_decode(Backend& backend, const AttentionDecode& args);
void gate_mix_forward(Backend& backend, const GateMixForward& args);
void gate_mix_backward(Backend& backend, const GateMixBackward& args);
void swiglu_forward(Backend& backend, const SwigluForward& args);
void swiglu_backward(Backend& backend, const SwigluBackward& args);
void route_experts(Backend& backend, const RouteExperts& args);
void grouped_matmul(Backend& backend, const GroupedMatmul& args);
void combine_experts(Backend& backend, const CombineExperts& args);
void gelu_forward(Backend& backend, const GeluForward& args);
void gelu_backward(Backend& backend, const GeluBackward& args);
void cross_entropy(Backend& backend, const CrossEntropy& args);
void adamw_step(Backend& backend, const AdamWStep& args);
void round_weights(Backend& backend, const RoundWeights& args);
void sum(Backend& backend, const Sum& args);
void sum_of_squares(Backend& backend, const SumOfSquares& args);
void add(Backend& backend, const Add& args);
void scale(Backend& backend, const Scale& args);
void fill(Backend& backend, const Fill& args);
void copy(Backend& backend, const Copy& args);

}  // namespace flywheel::ops
