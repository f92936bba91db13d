// Mixture of experts: choosing them, grouping the pairs of a token and an expert, and adding up.
#include "cuda/device/check.h"
#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/row_order.h"

namespace flywheel::cuda {
namespace {

constexpr int kThreads = 128;

struct RouteArgs {
  float* weights;            // [T, K]
  std::int32_t* slots;       // [T, K]
  std::int32_t* rows;        // [T K]
  std::int32_t* offsets;     // [E + 1]
  const float* logits;       // [T, E]
  std::int32_t* experts_of;  // [T, K], the chosen experts
  std::int64_t tokens, experts, chosen;
  bool normalize;
};

struct Candidate {
  float logit;
  std::int32_t expert;
};

// The larger logit; of equal ones the lower expert.
__device__ __forceinline__ Candidate better(Candidate a, Candidate b) {
  const bool first = a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
  return first ? a : b;
}

__device__ __forceinline__ Candidate best_of_warp(Candidate mine) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const float logit = __shfl_xor_sync(kAllLanes, mine.logit, step);
    const std::int32_t expert = __shfl_xor_sync(kAllLanes, mine.expert, step);
    mine = better(mine, {logit, expert});
  }
  return mine;
}

// A warp a token; each round takes the best of those behind the last one taken.
__global__ void __launch_bounds__(kThreads) choose_experts_kernel(RouteArgs args) {
  const std::int64_t token = row_of_warp();
  if (token >= args.tokens) return;
  const float* logits = args.logits + token * args.experts;
  const std::int32_t none = static_cast<std::int32_t>(args.experts);
  Candidate taken{INFINITY, -1};
  float highest = 0;
  float total = 0;
  float sum = 0;
  for (std::int64_t k = 0; k < args.chosen; ++k) {
    Candidate mine{-INFINITY, none};
    for (std::int32_t e = lane_id(); e < none; e += kWarp) {
      const Candidate candidate{logits[e], e};
      const bool behind = candidate.logit < taken.logit ||
                          (candidate.logit == taken.logit && candidate.expert > taken.expert);
      if (behind) mine = better(candidate, mine);
    }
    taken = best_of_warp(mine);
    if (taken.expert == none) __trap();  // not a number
    if (k == 0) {
      highest = taken.logit;
      for (std::int32_t e = lane_id(); e < none; e += kWarp) total += expf(logits[e] - highest);
      total = warp_sum(total);
    }
    const float weight = expf(taken.logit - highest) / total;
    sum += weight;
    if (lane_id() != 0) continue;
    args.weights[token * args.chosen + k] = weight;
    args.experts_of[token * args.chosen + k] = taken.expert;
  }
  if (!args.normalize) return;
  __syncwarp();
  for (std::int64_t k = lane_id(); k < args.chosen; k += kWarp) {
    args.weights[token * args.chosen + k] /= sum;
  }
}

// The pair that was sorted to a row goes there; where the expert changes, groups begin.
__global__ void __launch_bounds__(kThreads) place_pairs_kernel(RouteArgs args, RowOrder order) {
  const std::int64_t row = index_of_thread();
  const std::int64_t pairs = args.tokens * args.chosen;
  if (row >= pairs) return;
  const std::int32_t pair = order.rows[row];
  args.rows[row] = static_cast<std::int32_t>(pair / args.chosen);
  args.slots[pair] = static_cast<std::int32_t>(row);
  const std::int32_t expert = order.keys[row];
  const std::int32_t before = row == 0 ? -1 : order.keys[row - 1];
  for (std::int32_t e = before + 1; e <= expert; ++e) {
    args.offsets[e] = static_cast<std::int32_t>(row);
  }
  if (row + 1 < pairs) return;
  for (std::int64_t e = expert + 1; e <= args.experts; ++e) {
    args.offsets[e] = static_cast<std::int32_t>(pairs);
  }
}

struct CombineArgs {
  void* out;
  const void* x;
  const std::int32_t* slots;
  const float* weights;
  std::int64_t tokens, chosen, width;
};

template <class T>
__global__ void __launch_bounds__(kThreads) combine_experts_kernel(CombineArgs args) {
  const std::int64_t index = index_of_thread();
  if (index >= args.tokens * args.width) return;
  const std::int64_t token = index / args.width;
  const std::int64_t c = index % args.width;
  float sum = 0;
  for (std::int64_t k = 0; k < args.chosen; ++k) {
    const std::int64_t row = args.slots[token * args.chosen + k];
    if (row < 0 || row >= args.tokens * args.chosen) __trap();
    sum += args.weights[token * args.chosen + k] *
           to_float(static_cast<const T*>(args.x)[row * args.width + c]);
  }
  static_cast<T*>(args.out)[index] = from_float<T>(sum);
}

}  // namespace

void route_experts(const RouteExperts& args, const Workspace& workspace, cudaStream_t stream) {
  RouteArgs route{.weights = args.weights.f32(),
                  .slots = args.slots.i32(),
                  .rows = args.rows.i32(),
                  .offsets = args.offsets.i32(),
                  .logits = args.logits.f32(),
                  .tokens = args.logits.shape[0],
                  .experts = args.logits.shape[1],
                  .chosen = args.weights.shape[1],
                  .normalize = args.normalize};
  const std::int64_t pairs = route.tokens * route.chosen;
  if (pairs == 0) {
    check(cudaMemsetAsync(route.offsets, 0, static_cast<std::size_t>(args.offsets.bytes()), stream),
          "memset");
    return;
  }
  // Nobody has written `rows` yet: the keys of the sort, which its first pass reads.
  route.experts_of = route.rows;
  launch<choose_experts_kernel>(blocks_for(route.tokens, kThreads / kWarp), kThreads, 0, stream,
                                route);
  const RowOrder order = sort_rows(route.experts_of, pairs, route.experts, workspace, stream);
  launch<place_pairs_kernel>(blocks_for(pairs, kThreads), kThreads, 0, stream, route, order);
}

void combine_experts(const CombineExperts& args, cudaStream_t stream) {
  if (args.out.elements() == 0) return;
  const CombineArgs combine{.out = args.out.data,
                            .x = args.x.data,
                            .slots = args.slots.i32(),
                            .weights = args.weights.f32(),
                            .tokens = args.out.shape[0],
                            .chosen = args.weights.shape[1],
                            .width = args.out.shape[1]};
  const unsigned blocks = blocks_for(args.out.elements(), kThreads);
  if (args.x.dtype == DType::BF16) {
    launch<combine_experts_kernel<bf16>>(blocks, kThreads, 0, stream, combine);
  } else {
    launch<combine_experts_kernel<float>>(blocks, kThreads, 0, stream, combine);
  }
}

}  // namespace flywheel::cuda
