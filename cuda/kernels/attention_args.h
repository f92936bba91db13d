#pragma once

#include "cuda/kernels/attention_plan.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/rope.h"

namespace flywheel::cuda {

// [T, heads, D] with any strides.
struct HeadRows {
  void* data;
  std::int64_t token_stride, head_stride;
};

// What the three passes of attention are about.
struct AttentionArgs {
  HeadRows q, k, v, out;
  HeadRows dout, dq, dk, dv;
  Rope rope;   // turns dq and dk back
  float* lse;  // [H, T]
  // Statistics of the queries, written by the dQ pass, read by the dK, dV pass: the plain kernels
  // keep row sums of dout * out, [H, T]; the others pairs (attention_mma.h) in the order of the
  // plan's slots, [H, even_tokens].
  float* statistics;
  DevicePlan plan;
  std::int64_t tokens, heads, kv_heads;
  std::int32_t size;
  float scale;
  bool accumulate;
};

// Error Shape unless the head size is a multiple of `step` up to 256.
void check_head_size(std::int64_t size, std::int64_t step);

constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.693147181F;

// A pass for the types and sizes that it was made for; each queues one kernel.
void plain_attention_forward(const AttentionArgs& args, DType dtype, cudaStream_t stream);
void plain_attention_backward(const AttentionArgs& args, DType dtype, cudaStream_t stream);
// bf16, head sizes 64 and 128, all rows aligned to 16 bytes, RoPE's tables to 8.
void mma_attention_forward(const AttentionArgs& args, cudaStream_t stream);
void mma_attention_dq(const AttentionArgs& args, cudaStream_t stream);
void mma_attention_dkv(const AttentionArgs& args, cudaStream_t stream);

}  // namespace flywheel::cuda
