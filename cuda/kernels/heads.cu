// Taking the fused projections apart and back: a warp a head of a token.
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/rope_rotation.h"

namespace flywheel::cuda {
namespace {

constexpr int kHeads = 4;  // a block
constexpr std::int64_t kMostBlocks = 264;

// [T, H, D] with any strides.
struct Heads {
  void* data;
  std::int64_t token_stride, head_stride;
};
Heads heads_of(const TensorView& view) {
  return {view.data, view.stride(0), view.stride(1)};
}

struct SplitHeads {
  Heads q, k, v;
  void* qkv;
  float* q_rstd;
  float* k_rstd;
  const void* q_weight;  // null: no norm
  const void* k_weight;
  float* partials;  // [blocks, q then k, D], sums of the gradients of the norms' weights
  Rope rope;
  std::int64_t tokens, heads, kv_heads, size;
  std::int64_t tokens_a_block;
  float eps;
};

// Where head `h` of a token, counted over q, k and v, lives on both sides.
template <class T>
struct HeadAt {
  T* split;
  T* fused;
  const T* weight;  // of the norm
  float* rstd;
};

template <class T>
__device__ __forceinline__ HeadAt<T> find_head(const SplitHeads& args, std::int64_t token,
                                               std::int64_t h) {
  const std::int64_t all = args.heads + 2 * args.kv_heads;
  HeadAt<T> at{};
  at.fused = static_cast<T*>(args.qkv) + (token * all + h) * args.size;
  const auto locate = [&](const Heads& heads, std::int64_t head) {
    return static_cast<T*>(heads.data) + token * heads.token_stride + head * heads.head_stride;
  };
  if (h < args.heads) {
    at.split = locate(args.q, h);
    at.weight = static_cast<const T*>(args.q_weight);
    at.rstd = args.q_rstd + token * args.heads + h;
  } else if (h < args.heads + args.kv_heads) {
    const std::int64_t head = h - args.heads;
    at.split = locate(args.k, head);
    at.weight = static_cast<const T*>(args.k_weight);
    at.rstd = args.k_rstd + token * args.kv_heads + head;
  } else {
    at.split = locate(args.v, h - args.heads - args.kv_heads);
  }
  return at;
}

template <class T>
__global__ void __launch_bounds__(kHeads* kWarp) split_heads_forward_kernel(SplitHeads args) {
  const std::int64_t all = args.heads + 2 * args.kv_heads;
  const std::int64_t row = row_of_warp();
  if (row >= args.tokens * all) return;
  const std::int64_t token = row / all;
  const std::int64_t h = row % all;
  const HeadAt<T> at = find_head<T>(args, token, h);
  float rstd = 1;
  if (at.weight) {
    float squares = 0;
    for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
      const float x = to_float(at.fused[c]);
      squares += x * x;
    }
    rstd = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(args.size) + args.eps);
    if (lane_id() == 0) *at.rstd = rstd;
  }
  const auto normed = [&](std::int64_t c) {
    const float x = to_float(at.fused[c]);
    return at.weight ? x * rstd * to_float(at.weight[c]) : x;
  };
  const bool turn = args.rope.cos && h < args.heads + args.kv_heads;
  for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
    at.split[c] =
        from_float<T>(turn ? rotated(args.rope, token, args.size, c, 1.0F, normed) : normed(c));
  }
}

// One head's gradient back into dqkv; its part of the gradient of the norm's weight is added to
// dweight [D], of which each lane owns columns lane, lane + 32, ...
template <class T>
__device__ __forceinline__ void backward_of_head(const SplitHeads& args, const T* qkv,
                                                 std::int64_t token, std::int64_t h,
                                                 float* dweight) {
  const HeadAt<T> at = find_head<T>(args, token, h);
  const bool turn = args.rope.cos && h < args.heads + args.kv_heads;
  const auto given = [&](std::int64_t c) { return to_float(at.split[c]); };
  const auto gradient = [&](std::int64_t c) {
    return turn ? rotated(args.rope, token, args.size, c, -1.0F, given) : given(c);
  };
  if (!at.weight) {
    for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
      at.fused[c] = from_float<T>(gradient(c));
    }
    return;
  }
  const float rstd = *at.rstd;
  const T* x = qkv + (at.fused - static_cast<T*>(args.qkv));
  float dot = 0;
  for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
    const float y = to_float(x[c]) * rstd;
    const float g = gradient(c);
    dot += g * to_float(at.weight[c]) * y;
    dweight[c] += g * y;
  }
  const float mean = warp_sum(dot) / static_cast<float>(args.size);
  for (std::int64_t c = lane_id(); c < args.size; c += kWarp) {
    const float y = to_float(x[c]) * rstd;
    at.fused[c] = from_float<T>(rstd * (gradient(c) * to_float(at.weight[c]) - y * mean));
  }
}

template <class T>
__global__ void __launch_bounds__(kHeads* kWarp)
    split_heads_backward_kernel(SplitHeads args, const T* qkv) {
  float* sums = &dynamic_shared<float>();  // [warps, q then k, D]
  float* mine = sums + warp_id() * 2 * args.size;
  for (std::int64_t c = lane_id(); c < 2 * args.size; c += kWarp) mine[c] = 0;
  __syncwarp();
  const std::int64_t all = args.heads + 2 * args.kv_heads;
  const std::int64_t begin = std::int64_t{blockIdx.x} * args.tokens_a_block;
  const std::int64_t end = min(args.tokens, begin + args.tokens_a_block);
  for (std::int64_t row = begin * all + warp_id(); row < end * all; row += kHeads) {
    const std::int64_t h = row % all;
    backward_of_head<T>(args, qkv, row / all, h, h < args.heads ? mine : mine + args.size);
  }
  if (!args.q_weight) return;
  __syncthreads();
  float* partial = args.partials + std::int64_t{blockIdx.x} * 2 * args.size;
  for (std::int64_t c = threadIdx.x; c < 2 * args.size; c += kHeads * kWarp) {
    float total = 0;
    for (int warp = 0; warp < kHeads; ++warp) total += sums[warp * 2 * args.size + c];
    partial[c] = total;
  }
}

template <class F>
void for_dtype_of(const TensorView& view, const F& f) {
  view.dtype == DType::BF16 ? f.template operator()<bf16>() : f.template operator()<float>();
}

}  // namespace

void split_heads_forward(const SplitHeadsForward& args, cudaStream_t stream) {
  const SplitHeads split{.q = heads_of(args.q),
                         .k = heads_of(args.k),
                         .v = heads_of(args.v),
                         .qkv = args.qkv.data,
                         .q_rstd = args.q_rstd.f32(),
                         .k_rstd = args.k_rstd.f32(),
                         .q_weight = args.q_norm_weight.data,
                         .k_weight = args.k_norm_weight.data,
                         .rope = rope_of(args),
                         .tokens = args.q.shape[0],
                         .heads = args.q.shape[1],
                         .kv_heads = args.k.shape[1],
                         .size = args.q.shape[2],
                         .eps = args.eps};
  const std::int64_t rows = split.tokens * (split.heads + 2 * split.kv_heads);
  if (rows == 0) return;
  for_dtype_of(args.qkv, [&]<class T>() {
    launch<split_heads_forward_kernel<T>>(blocks_for(rows, kHeads), kHeads * kWarp, 0, stream,
                                          split);
  });
}

void split_heads_backward(const SplitHeadsBackward& args, const Workspace& workspace,
                          cudaStream_t stream) {
  SplitHeads split{.q = heads_of(args.dq),
                   .k = heads_of(args.dk),
                   .v = heads_of(args.dv),
                   .qkv = args.dqkv.data,
                   .q_rstd = args.q_rstd.f32(),
                   .k_rstd = args.k_rstd.f32(),
                   .q_weight = args.q_norm_weight.data,
                   .k_weight = args.k_norm_weight.data,
                   .rope = rope_of(args),
                   .tokens = args.dq.shape[0],
                   .heads = args.dq.shape[1],
                   .kv_heads = args.dk.shape[1],
                   .size = args.dq.shape[2]};
  if (split.tokens == 0) return;
  const RowBlocks division = divide_rows(split.tokens, 4, kMostBlocks);
  split.tokens_a_block = division.rows_a_block;
  const std::int64_t columns = 2 * split.size;
  if (args.q_norm_weight) {
    split.partials = scratch<float>(workspace, 0, (division.blocks + 1) * columns);
  }
  const auto shared_bytes = static_cast<std::size_t>(kHeads * columns) * sizeof(float);
  for_dtype_of(args.dqkv, [&]<class T>() {
    launch<split_heads_backward_kernel<T>>(division.blocks, kHeads * kWarp, shared_bytes, stream,
                                           split, pointer_to<const T>(args.qkv));
  });
  if (!args.q_norm_weight) return;
  float* sums = split.partials + division.blocks * columns;
  check(cudaMemsetAsync(sums, 0, static_cast<std::size_t>(columns) * sizeof(float), stream),
        "memset");
  add_column_sums(sums, split.partials, division.blocks, columns, stream);
  add_column_sums(args.dq_norm_weight.f32(), sums, 1, split.size, stream);
  add_column_sums(args.dk_norm_weight.f32(), sums + split.size, 1, split.size, stream);
}

}  // namespace flywheel::cuda
