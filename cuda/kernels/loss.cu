// Softmax cross-entropy: a block a row, the gradient in place of the logits.
#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

struct LossArgs {
  float* losses;
  std::int32_t* most_likely;  // null: not wanted
  void* logits;
  const std::int32_t* targets;
  std::int64_t vocab, padded;
  float gradient_scale, z_loss;
};

// e^(x - top) summed over the logits that a thread, warp or block saw.
struct SoftmaxSum {
  float top;
  float sum;
};

__device__ __forceinline__ SoftmaxSum reduce_warp(SoftmaxSum mine) {
  const float top = warp_max(mine.top);
  const float factor = mine.top == -INFINITY ? 0.0F : expf(mine.top - top);
  return {top, warp_sum(mine.sum * factor)};
}

struct WarpSums {
  SoftmaxSum of[kWarps];
};

// The same in all threads of the block.
__device__ __forceinline__ SoftmaxSum reduce_block(SoftmaxSum mine) {
  auto& warps = static_shared<WarpSums>();
  mine = reduce_warp(mine);
  if (lane_id() == 0) warps.of[warp_id()] = mine;
  __syncthreads();
  const bool present = lane_id() < kWarps;
  return reduce_warp(present ? warps.of[lane_id()] : SoftmaxSum{-INFINITY, 0});
}

template <class T, int kCount>
__device__ __forceinline__ SoftmaxSum sum_of_thread(const T* row, std::int64_t vocab,
                                                    std::int64_t padded) {
  SoftmaxSum result{-INFINITY, 0};
  for (std::int64_t c = threadIdx.x * kCount; c < padded; c += kThreads * kCount) {
    Floats<kCount> values = load<kCount>(row + c);
    float top = result.top;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (c + i >= vocab) values[i] = -INFINITY;
      top = fmaxf(top, values[i]);
    }
    if (top == -INFINITY) continue;
    float sum = result.top == -INFINITY ? 0.0F : result.sum * expf(result.top - top);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += expf(values[i] - top);
    result = {top, sum};
  }
  return result;
}

struct WarpIndices {
  std::int32_t of[kWarps];
};

// The lowest index of the largest logit, in the block's first thread.
template <class T>
__device__ __forceinline__ std::int32_t index_of(float top, const T* row, std::int64_t vocab) {
  auto& warps = static_shared<WarpIndices>();
  std::int32_t lowest = 0x7fffffff;
  for (std::int64_t c = threadIdx.x; c < vocab; c += kThreads) {
    if (to_float(row[c]) == top) {
      lowest = static_cast<std::int32_t>(c);
      break;
    }
  }
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    lowest = min(lowest, __shfl_xor_sync(kAllLanes, lowest, step));
  }
  if (lane_id() == 0) warps.of[warp_id()] = lowest;
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) lowest = min(lowest, warps.of[warp]);
  return lowest;
}

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(LossArgs args) {
  const std::int64_t row = blockIdx.x;
  T* logits = static_cast<T*>(args.logits) + row * args.padded;
  const std::int32_t target = args.targets[row];
  if (target >= args.vocab) __trap();
  if (target < 0) {
    if (threadIdx.x == 0) {
      args.losses[row] = 0;
      if (args.most_likely) args.most_likely[row] = -1;
    }
    if (args.gradient_scale == 0) return;
    for (std::int64_t c = threadIdx.x * kCount; c < args.padded; c += kThreads * kCount) {
      store(logits + c, Floats<kCount>{});
    }
    return;
  }
  // All threads read it before the barrier, behind which it is overwritten.
  const float target_logit = to_float(logits[target]);
  const SoftmaxSum all = reduce_block(sum_of_thread<T, kCount>(logits, args.vocab, args.padded));
  if (args.most_likely) {
    const std::int32_t index = index_of(all.top, logits, args.vocab);
    if (threadIdx.x == 0) args.most_likely[row] = index;
  }
  const float log_sum = logf(all.sum);
  if (threadIdx.x == 0) args.losses[row] = log_sum + (all.top - target_logit);
  if (args.gradient_scale == 0) return;
  // d(loss + z lse^2) = p (1 + 2 z lse) - onehot
  const float slope = 1.0F + 2.0F * args.z_loss * (all.top + log_sum);
  const float factor = args.gradient_scale * slope / all.sum;
  for (std::int64_t c = threadIdx.x * kCount; c < args.padded; c += kThreads * kCount) {
    Floats<kCount> values = load<kCount>(logits + c);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float p = expf(values[i] - all.top) * factor;
      const float gradient = c + i == target ? p - args.gradient_scale : p;
      values[i] = c + i < args.vocab ? gradient : 0.0F;
    }
    store(logits + c, values);
  }
}

}  // namespace

void cross_entropy(const CrossEntropy& args, cudaStream_t stream) {
  const std::int64_t rows = args.logits.shape[0];
  const std::int64_t padded = args.logits.shape[1];
  if (rows == 0) return;
  const LossArgs loss{.losses = args.losses.f32(),
                      .most_likely = args.most_likely.i32(),
                      .logits = args.logits.data,
                      .targets = args.targets.i32(),
                      .vocab = args.vocab_size,
                      .padded = padded,
                      .gradient_scale = args.gradient_scale,
                      .z_loss = args.z_loss};
  for_dtype(args.logits.dtype, can_pack(padded, {&args.logits}), [&]<class T, int kCount>() {
    launch<cross_entropy_kernel<T, kCount>>(static_cast<unsigned>(rows), kThreads, 0, stream, loss);
  });
}

}  // namespace flywheel::cuda
