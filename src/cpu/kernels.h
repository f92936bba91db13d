#pragma once

#include <string>

#include "backend/op_args.h"
#include "core/thread_pool.h"
#include "cpu/memory.h"

// The ops on the CPU, one function each, vectorised for each Highway target. Arguments were checked
// by the fronts. The results have the same bits at any number of threads.
namespace flywheel::cpu {

// The vector extension that the kernels use: "AVX2", "AVX3" (AVX-512) or "AVX3 + AMX".
std::string simd_target();

// Whether matmul_few_rows multiplies integers if the weights are Q8_0x16.
bool multiplies_int8();

void matmul(const Matmul& args, ThreadPool& pool, const Workspace& workspace);
// The same for Matmul::few_rows.
void matmul_few_rows(const Matmul& args, ThreadPool& pool, const Workspace& workspace);

void bias_backward(const BiasBackward& args, ThreadPool& pool, const Workspace& workspace);
void embedding_forward(const EmbeddingForward& args, ThreadPool& pool);
void embedding_backward(const EmbeddingBackward& args, ThreadPool& pool);

void rms_norm_forward(const RmsNormForward& args, ThreadPool& pool);
void add_rms_norm_forward(const AddRmsNormForward& args, ThreadPool& pool);
void rms_norm_backward(const RmsNormBackward& args, ThreadPool& pool, const Workspace& workspace);
void layer_norm_forward(const LayerNormForward& args, ThreadPool& pool);
void layer_norm_backward(const LayerNormBackward& args, ThreadPool& pool,
                         const Workspace& workspace);

void split_heads_forward(const SplitHeadsForward& args, ThreadPool& pool);
void split_heads_backward(const SplitHeadsBackward& args, ThreadPool& pool,
                          const Workspace& workspace);
void kv_cache_write(const KvCacheWrite& args, ThreadPool& pool);
void attention_decode(const AttentionDecode& args, ThreadPool& pool, const Workspace& workspace);
void gate_mix_forward(const GateMixForward& args, ThreadPool& pool);
void gate_mix_backward(const GateMixBackward& args, ThreadPool& pool);

void swiglu_forward(const SwigluForward& args, ThreadPool& pool);
void swiglu_backward(const SwigluBackward& args, ThreadPool& pool);
void route_experts(const RouteExperts& args, ThreadPool& pool);
void combine_experts(const CombineExperts& args, ThreadPool& pool);
void gelu_forward(const GeluForward& args, ThreadPool& pool);
void gelu_backward(const GeluBackward& args, ThreadPool& pool);

void cross_entropy(const CrossEntropy& args, ThreadPool& pool);

void adamw_step(const AdamWStep& args, ThreadPool& pool);
void sum(const Sum& args);
void sum_of_squares(const SumOfSquares& args, ThreadPool& pool, const Workspace& workspace);

void add(const Add& args, ThreadPool& pool);
void scale(const Scale& args, ThreadPool& pool);
void fill(const Fill& args, ThreadPool& pool);
void copy(const Copy& args, ThreadPool& pool);

}  // namespace flywheel::cpu
