#pragma once

#include "cuda/kernels/attention_plan.h"
#include "cuda/kernels/kernels.h"

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
  float* lse;    // [H, T]
  float* delta;  // [H, T], row sums of dout * out: written by the dQ pass, read by the dK, dV pass
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

}  // namespace flywheel::cuda
