// Mixture of block attention, forward (docs/attention.md; Lu et al. 2025), in float arithmetic for
// any type and head size: mean keys of blocks, then each query's choice of blocks, then its
// attention. Queries choose alone, so nothing but the means is shared between them.
#include <algorithm>

#include "cuda/kernels/attention_moba_walk.h"
#include "cuda/kernels/dispatch.h"

namespace flywheel::cuda {
namespace {

constexpr int kRows = kWarp;  // queries of a CUDA block; mean keys or keys that it meets at a time
constexpr int kMeanWarps = 4;
template <int kSize>
constexpr int kWarps = kSize > 128 ? 2 : 4;

// Complete blocks of all sequences are disjoint, so that no two begin in the same `block` tokens.
__device__ __forceinline__ float* mean_of(const MobaArgs& args, std::int64_t kv_head,
                                          const AttentionTile& own, std::int64_t block) {
  const std::int64_t row = (own.begin + block * args.block) / args.block;
  return args.means +
         ((kv_head - args.first_kv_head) * args.means_of_head + row) * args.attention.size;
}

// A CUDA block takes the blocks of keys that begin in its tile and lie before some query.
template <class T>
__global__ void __launch_bounds__(kMeanWarps* kWarp) mean_keys_kernel(MobaArgs args) {
  const AttentionTile own = args.attention.plan.tiles[blockIdx.x / args.kv_heads];
  const std::int64_t kv_head = args.first_kv_head + blockIdx.x % args.kv_heads;
  const std::int64_t first = std::int64_t{own.tile} * kAttentionTile;
  const float share = 1.0F / static_cast<float>(args.block);
  for (std::int64_t b = (first + args.block - 1) / args.block + warp_id();
       b * args.block < first + kAttentionTile && (b + 1) * args.block < own.length;
       b += kMeanWarps) {
    float* mean = mean_of(args, kv_head, own, b);
    for (std::int32_t c = lane_id(); c < args.attention.size; c += kWarp) {
      float sum = 0;
      for (std::int64_t j = b * args.block; j < (b + 1) * args.block; ++j) {
        sum += to_float(row_of<const T>(args.attention.k, own.begin + j, kv_head)[c]);
      }
      mean[c] = sum * share;
    }
  }
}

// Puts a block where it belongs among a query's best; those behind it move on by one. All lanes
// call it with the same arguments.
__device__ __forceinline__ void insert(const MobaArgs& args, std::int64_t at, float score,
                                       std::int32_t block) {
  for (std::int64_t end = (args.places - 1) / kWarp * kWarp; end >= 0; end -= kWarp) {
    const std::int64_t place = end + lane_id();
    const bool real = place < args.places;
    const float held = real ? args.scores[at + place] : 0.0F;
    const float before = real && place > 0 ? args.scores[at + place - 1] : INFINITY;
    const std::int32_t block_before = real && place > 0 ? args.chosen[at + place - 1] : 0;
    __syncwarp();
    if (real && held < score) {
      args.scores[at + place] = before < score ? before : score;
      args.chosen[at + place] = before < score ? block_before : block;
    }
    __syncwarp();
  }
}

template <int kSize>
struct ChoiceShared {
  float q[kRows][kSize];
  float means[kRows][kSize + 1];
};

// A warp takes every kWarps-th query; its lanes are blocks, which come in ascending order.
template <class T, int kSize>
__global__ void __launch_bounds__(kWarps<kSize>* kWarp) choose_blocks_kernel(MobaArgs args) {
  auto& shared = dynamic_shared<ChoiceShared<kSize>>();
  const Queries queries(args);
  if (queries.count <= 0) return;
  const std::int32_t size = args.attention.size;
  for (std::int32_t r = warp_id(); r < queries.count; r += kWarps<kSize>) {
    const std::int64_t token = queries.own.begin + queries.first + r;
    const T* q = row_of<const T>(args.attention.q, token, queries.head);
    for (std::int32_t c = lane_id(); c < size; c += kWarp) shared.q[r][c] = to_float(q[c]);
    const std::int64_t at = places_of(args, queries.head, token);
    for (std::int64_t place = lane_id(); place < args.places; place += kWarp) {
      args.scores[at + place] = -INFINITY;
      args.chosen[at + place] = -1;
    }
  }
  const std::int64_t blocks = (queries.first + queries.count - 1) / args.block;
  for (std::int64_t first = 0; first < blocks; first += kRows) {
    __syncthreads();
    for (std::int32_t r = warp_id(); r < kRows && first + r < blocks; r += kWarps<kSize>) {
      const float* mean = mean_of(args, queries.kv_head, queries.own, first + r);
      for (std::int32_t c = lane_id(); c < size; c += kWarp) shared.means[r][c] = mean[c];
    }
    __syncthreads();
    const std::int64_t block = first + lane_id();
    for (std::int32_t r = warp_id(); r < queries.count; r += kWarps<kSize>) {
      const std::int32_t position = queries.first + r;
      const bool earlier = (block + 1) * args.block <= position;
      float score = 0;
      for (std::int32_t c = 0; earlier && c < size; ++c) {
        score += shared.q[r][c] * shared.means[lane_id()][c];
      }
      const std::int64_t at = places_of(args, queries.head, queries.own.begin + position);
      unsigned lanes = kAllLanes;  // that have not been looked at
      while (true) {
        const float least = args.scores[at + args.places - 1];
        lanes &= __ballot_sync(kAllLanes, earlier && score > least);
        __syncwarp();
        if (lanes == 0) break;
        const int lane = __ffs(static_cast<int>(lanes)) - 1;
        lanes &= lanes - 1;
        insert(args, at, __shfl_sync(kAllLanes, score, lane),
               static_cast<std::int32_t>(first + lane));
      }
    }
  }
}

template <int kSize>
struct AttendShared {
  float q[kWarps<kSize>][kSize];
  float k[kWarps<kSize>][kRows][kSize + 1];
};

// The softmax of a query so far, in all lanes but for `sum` and the lane's channels.
template <int kSize>
struct Softmax {
  static constexpr int kEach = kSize / kWarp;
  float top = -1e30F;  // finite, so that no difference is NaN
  float sum = 0;       // of the lane's keys
  float values[kEach] = {};
};

// Adds the keys [begin, end) of the sequence.
template <class T, int kSize>
__device__ __forceinline__ void attend(Softmax<kSize>& softmax, AttendShared<kSize>& shared,
                                       const MobaArgs& args, const Queries& queries,
                                       std::int64_t begin, std::int64_t end) {
  const std::int32_t size = args.attention.size;
  auto& k = shared.k[warp_id()];
  for (std::int64_t at = begin; at < end; at += kRows) {
    const int count = static_cast<int>(end - at < kRows ? end - at : kRows);
    const std::int64_t token = queries.own.begin + at;
    for (int r = 0; r < count; ++r) {
      const T* row = row_of<const T>(args.attention.k, token + r, queries.kv_head);
      for (std::int32_t c = lane_id(); c < size; c += kWarp) k[r][c] = to_float(row[c]);
    }
    __syncwarp();
    float score = -INFINITY;
    if (lane_id() < count) {
      score = 0;
      for (std::int32_t c = 0; c < size; ++c) score += shared.q[warp_id()][c] * k[lane_id()][c];
    }
    const float top = fmaxf(softmax.top, warp_max(score));
    const float weight = exp2f(score - top);
    const float correction = exp2f(softmax.top - top);
    softmax.top = top;
    softmax.sum = softmax.sum * correction + weight;
#pragma unroll
    for (int j = 0; j < Softmax<kSize>::kEach; ++j) softmax.values[j] *= correction;
    for (int r = 0; r < count; ++r) {
      const float w = __shfl_sync(kAllLanes, weight, r);
      const T* row = row_of<const T>(args.attention.v, token + r, queries.kv_head);
#pragma unroll
      for (int j = 0; j < Softmax<kSize>::kEach; ++j) {
        const std::int32_t c = lane_id() + j * kWarp;
        if (c < size) softmax.values[j] += w * to_float(row[c]);
      }
    }
    __syncwarp();
  }
}

// A warp takes every kWarps-th query: its own block, then those that it chose.
template <class T, int kSize>
__global__ void __launch_bounds__(kWarps<kSize>* kWarp) attend_blocks_kernel(MobaArgs args) {
  auto& shared = dynamic_shared<AttendShared<kSize>>();
  const Queries queries(args);
  const std::int32_t size = args.attention.size;
  for (std::int32_t r = warp_id(); r < queries.count; r += kWarps<kSize>) {
    const std::int64_t position = queries.first + r;
    const std::int64_t token = queries.own.begin + position;
    const T* q = row_of<const T>(args.attention.q, token, queries.head);
    for (std::int32_t c = lane_id(); c < size; c += kWarp) {
      shared.q[warp_id()][c] = to_float(q[c]) * (args.attention.scale * kLog2E);
    }
    __syncwarp();
    Softmax<kSize> softmax;
    attend<T>(softmax, shared, args, queries, position / args.block * args.block, position + 1);
    const std::int64_t at = places_of(args, queries.head, token);
    for (std::int64_t place = 0; place < args.places; ++place) {
      const std::int64_t block = args.chosen[at + place];
      if (block < 0) break;
      attend<T>(softmax, shared, args, queries, block * args.block, (block + 1) * args.block);
    }
    const float sum = warp_sum(softmax.sum);
    T* out = row_of<T>(args.attention.out, token, queries.head);
#pragma unroll
    for (int j = 0; j < Softmax<kSize>::kEach; ++j) {
      const std::int32_t c = lane_id() + j * kWarp;
      if (c < size) out[c] = from_float<T>(softmax.values[j] / sum);
    }
    if (lane_id() == 0) {
      args.attention.lse[queries.head * args.attention.tokens + token] =
          softmax.top * kLn2 + logf(sum);
    }
    __syncwarp();
  }
}

// CUDA blocks of a pass over queries.
unsigned blocks_of(const MobaArgs& args) {
  return static_cast<unsigned>(args.attention.plan.tile_count * kMobaParts * args.kv_heads *
                               args.group());
}

}  // namespace

MobaArgs moba_args(const AttentionArgs& args, const MobaShape& shape, const Workspace& workspace) {
  MobaArgs m{};
  m.attention = args;
  m.block = shape.block;
  m.places = std::min(shape.top_k, (shape.longest + shape.block - 1) / shape.block) - 1;
  m.means_of_head = (args.tokens + shape.block - 1) / shape.block;
  const std::int64_t means = m.means_of_head * args.size;
  const std::int64_t choices = m.group() * args.tokens * m.places;
  const std::int64_t fit = workspace.bytes / (4 * (means + 2 * choices));
  m.kv_heads = std::clamp<std::int64_t>(fit, 1, args.kv_heads);
  m.means = scratch<float>(workspace, 0, m.kv_heads * means);
  m.scores = scratch<float>(workspace, m.kv_heads * means, m.kv_heads * choices);
  m.chosen = scratch<std::int32_t>(workspace, m.kv_heads * (means + choices), m.kv_heads * choices);
  return m;
}

void choose_blocks(const MobaArgs& args, DType dtype, cudaStream_t stream) {
  if (args.places == 0) return;
  for_head(dtype, args.attention.size, [&]<class T, int kSize>() {
    launch<mean_keys_kernel<T>>(
        static_cast<unsigned>(args.attention.plan.tile_count * args.kv_heads), kMeanWarps * kWarp,
        0, stream, args);
    launch<choose_blocks_kernel<T, kSize>>(blocks_of(args), kWarps<kSize> * kWarp,
                                           sizeof(ChoiceShared<kSize>), stream, args);
  });
}

void moba_attention_forward(const AttentionArgs& args, const MobaShape& shape, DType dtype,
                            const Workspace& workspace, cudaStream_t stream) {
  for_passes(moba_args(args, shape, workspace), [&](const MobaArgs& pass) {
    choose_blocks(pass, dtype, stream);
    for_head(dtype, args.size, [&]<class T, int kSize>() {
      launch<attend_blocks_kernel<T, kSize>>(blocks_of(pass), kWarps<kSize> * kWarp,
                                             sizeof(AttendShared<kSize>), stream, pass);
    });
  });
}

}  // namespace flywheel::cuda
