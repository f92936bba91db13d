// Attention in float arithmetic, for any type and head size.
#include "cuda/kernels/attention_args.h"
#include "cuda/kernels/attention_rows.h"
#include "cuda/kernels/attention_walk.h"
#include "cuda/kernels/dispatch.h"

namespace flywheel::cuda {
namespace {

constexpr float kNoMaximum = -1e30F;  // finite, so that no difference is NaN

template <int kSize>
struct Shared {
  Rows<kSize> mine[2];
  Rows<kSize> met[2];
  Places my_places;
  Places met_places;
  alignas(16) float weights[kWarps<kSize>][kMine<kSize>][kRows];
};

// The block's head, tile and part of it. Heads are next to each other, as they are in memory.
struct Work {
  std::int64_t head;
  std::int64_t tile;
  std::int32_t part;
};

__device__ __forceinline__ Work work_of_block(std::int64_t heads) {
  const std::int64_t rest = blockIdx.x / heads;
  return {blockIdx.x % heads, rest / kParts, static_cast<std::int32_t>(rest % kParts)};
}

__device__ __forceinline__ bool visible(const AttentionTile& own, const Places& queries, int query,
                                        const Places& keys, int key) {
  return keys.position[key] <= queries.position[query] &&
         in_band(own, queries.rank[query] - keys.rank[key]);
}

// Calls body(part) for the parts of the key tiles that have a key no later than `last_position`.
template <class F>
__device__ __forceinline__ void for_parts_of_keys(const AttentionArgs& args,
                                                  const AttentionTile& own,
                                                  std::int32_t last_position, const F& body) {
  for (std::int32_t v = own.first_keys; v <= own.last_keys; ++v) {
    const MetTile tile = met_tile(own, v);
    for (std::int32_t i = 0; i < kParts; ++i) {
      const Part part = part_of(own, tile, i);
      if (part.count <= 0 || position_of(args.plan, own, part, 0) > last_position) break;
      body(part);
    }
  }
}

template <class T, int kSize>
__global__ void __launch_bounds__(kThreads<kSize>, 1) plain_forward_kernel(AttentionArgs args) {
  auto& shared = dynamic_shared<Shared<kSize>>();
  const Work work = work_of_block(args.heads);
  const std::int64_t kv_head = work.head / (args.heads / args.kv_heads);
  const AttentionTile own = args.plan.tiles[work.tile];
  const Part queries = part_of(own, {own.tile, 0}, work.part);
  if (queries.count <= 0) return;
  place_rows(shared.my_places, args, own, queries, kNoQuery);
  load_rows<T>(shared.mine[0], args.q, work.head, args, own, queries, args.scale * kLog2E);

  const int first = warp_id() * kMine<kSize>;
  Sums<kSize> out;
  float top[kMine<kSize>];
  float sum[kMine<kSize>];
#pragma unroll
  for (int r = 0; r < kMine<kSize>; ++r) {
    top[r] = kNoMaximum;
    sum[r] = 0;
  }
  const std::int32_t last = position_of(args.plan, own, queries, queries.count - 1);
  for_parts_of_keys(args, own, last, [&](const Part& keys) {
    place_rows(shared.met_places, args, own, keys, kNoKey);
    load_rows<T>(shared.met[0], args.k, kv_head, args, own, keys, 1);
    load_rows<T>(shared.met[1], args.v, kv_head, args, own, keys, 1);
    __syncthreads();
    float scores[kMine<kSize>];
    multiply_rows(scores, shared.mine[0], shared.met[0], args.size);
#pragma unroll
    for (int r = 0; r < kMine<kSize>; ++r) {
      const bool seen = visible(own, shared.my_places, first + r, shared.met_places, lane_id());
      const float score = seen ? scores[r] : -INFINITY;
      const float new_top = fmaxf(top[r], warp_max(score));
      const float weight = exp2f(score - new_top);
      const float correction = exp2f(top[r] - new_top);
      top[r] = new_top;
      sum[r] = sum[r] * correction + weight;
      out.scale(r, correction);
      shared.weights[warp_id()][r][lane_id()] = weight;
    }
    __syncwarp();
    out.add(shared.weights[warp_id()], shared.met[1]);
    __syncthreads();
  });
#pragma unroll
  for (int r = 0; r < kMine<kSize>; ++r) {
    const float total = warp_sum(sum[r]);
    if (first + r >= queries.count) continue;
    const std::int64_t token = own.begin + shared.my_places.position[first + r];
    out.store(row_of<T>(args.out, token, work.head), r, 1.0F / total, false, args.size);
    if (lane_id() == 0) args.lse[work.head * args.tokens + token] = top[r] * kLn2 + logf(total);
  }
}

// Of a query: exp2 of a score less lse is its weight.
__device__ __forceinline__ void place_statistics(Places& places, const AttentionArgs& args,
                                                 const AttentionTile& own, std::int64_t head,
                                                 std::int32_t count) {
  const std::int32_t row = lane_id();
  if (warp_id() != 0) return;
  const std::int64_t at = head * args.tokens + own.begin + places.position[row];
  places.lse[row] = row < count ? args.lse[at] * kLog2E : 0.0F;
  places.delta[row] = row < count ? args.statistics[at] : 0.0F;
}

// Rows of dout times rows of out, for the warp's own queries.
template <class T, int kSize>
__device__ __forceinline__ void compute_delta(Places& places, const Rows<kSize>& dout,
                                              const AttentionArgs& args, const AttentionTile& own,
                                              std::int64_t head, std::int32_t count) {
  for (int r = 0; r < kMine<kSize>; ++r) {
    const std::int32_t row = warp_id() * kMine<kSize> + r;
    if (row >= count) return;
    const std::int64_t token = own.begin + places.position[row];
    const T* out = row_of<const T>(args.out, token, head);
    float sum = 0;
    for (std::int32_t c = lane_id(); c < args.size; c += kWarp) {
      sum += dout.at[row][c] * to_float(out[c]);
    }
    sum = warp_sum(sum);
    if (lane_id() != 0) continue;
    places.delta[row] = sum;
    args.statistics[head * args.tokens + token] = sum;
    places.lse[row] = args.lse[head * args.tokens + token] * kLog2E;
  }
}

template <class T, int kSize>
__global__ void __launch_bounds__(kThreads<kSize>, 1) plain_dq_kernel(AttentionArgs args) {
  auto& shared = dynamic_shared<Shared<kSize>>();
  const Work work = work_of_block(args.heads);
  const std::int64_t kv_head = work.head / (args.heads / args.kv_heads);
  const AttentionTile own = args.plan.tiles[work.tile];
  const Part queries = part_of(own, {own.tile, 0}, work.part);
  if (queries.count <= 0) return;
  place_rows(shared.my_places, args, own, queries, kNoQuery);
  load_rows<T>(shared.mine[0], args.q, work.head, args, own, queries, args.scale * kLog2E);
  load_rows<T>(shared.mine[1], args.dout, work.head, args, own, queries, 1);
  __syncthreads();
  compute_delta<T>(shared.my_places, shared.mine[1], args, own, work.head, queries.count);

  const int first = warp_id() * kMine<kSize>;
  Sums<kSize> dq;
  const std::int32_t last = position_of(args.plan, own, queries, queries.count - 1);
  for_parts_of_keys(args, own, last, [&](const Part& keys) {
    place_rows(shared.met_places, args, own, keys, kNoKey);
    load_rows<T>(shared.met[0], args.k, kv_head, args, own, keys, 1);
    load_rows<T>(shared.met[1], args.v, kv_head, args, own, keys, 1);
    __syncthreads();
    float scores[kMine<kSize>];
    float dweights[kMine<kSize>];
    multiply_rows(scores, shared.mine[0], shared.met[0], args.size);
    multiply_rows(dweights, shared.mine[1], shared.met[1], args.size);
#pragma unroll
    for (int r = 0; r < kMine<kSize>; ++r) {
      float dscore = 0;
      if (visible(own, shared.my_places, first + r, shared.met_places, lane_id())) {
        const float weight = exp2f(scores[r] - shared.my_places.lse[first + r]);
        dscore = weight * (dweights[r] - shared.my_places.delta[first + r]);
      }
      shared.weights[warp_id()][r][lane_id()] = dscore;
    }
    __syncwarp();
    dq.add(shared.weights[warp_id()], shared.met[0]);
    __syncthreads();
  });
  store_gradients<T>(dq, args.dq, work.head, args.scale, args, own, shared.my_places,
                     shared.mine[0], queries.count);
}

// Calls body(part) for the parts of the query tiles that have a query no earlier than
// `first_position`.
template <class F>
__device__ __forceinline__ void for_parts_of_queries(const AttentionArgs& args,
                                                     const AttentionTile& own,
                                                     std::int32_t first_position, const F& body) {
  for (std::int32_t v = own.first_queries; v <= own.last_queries; ++v) {
    const MetTile tile = met_tile(own, v);
    for (std::int32_t i = 0; i < kParts; ++i) {
      const Part part = part_of(own, tile, i);
      if (part.count <= 0) break;
      if (position_of(args.plan, own, part, part.count - 1) >= first_position) body(part);
    }
  }
}

template <class T, int kSize>
__global__ void __launch_bounds__(kThreads<kSize>, 1) plain_dkv_kernel(AttentionArgs args) {
  auto& shared = dynamic_shared<Shared<kSize>>();
  const Work work = work_of_block(args.kv_heads);
  // Of full attention the first keys are seen most: those tiles are the last of the list.
  const AttentionTile own = args.plan.tiles[args.plan.tile_count - 1 - work.tile];
  const Part keys = part_of(own, {own.tile, 0}, work.part);
  if (keys.count <= 0) return;
  place_rows(shared.my_places, args, own, keys, kNoKey);
  load_rows<T>(shared.mine[0], args.k, work.head, args, own, keys, 1);
  load_rows<T>(shared.mine[1], args.v, work.head, args, own, keys, 1);

  const int first = warp_id() * kMine<kSize>;
  const std::int64_t group = args.heads / args.kv_heads;
  Sums<kSize> dk;
  Sums<kSize> dv;
  auto& weights = shared.weights[warp_id()];
  const std::int32_t first_position = position_of(args.plan, own, keys, 0);
  for (std::int64_t head = work.head * group; head < (work.head + 1) * group; ++head) {
    for_parts_of_queries(args, own, first_position, [&](const Part& queries) {
      place_rows(shared.met_places, args, own, queries, kNoQuery);
      place_statistics(shared.met_places, args, own, head, queries.count);
      load_rows<T>(shared.met[0], args.q, head, args, own, queries, args.scale * kLog2E);
      load_rows<T>(shared.met[1], args.dout, head, args, own, queries, 1);
      __syncthreads();
      float scores[kMine<kSize>];
      float dscores[kMine<kSize>];
      multiply_rows(scores, shared.mine[0], shared.met[0], args.size);
      multiply_rows(dscores, shared.mine[1], shared.met[1], args.size);
#pragma unroll
      for (int r = 0; r < kMine<kSize>; ++r) {
        const bool seen = visible(own, shared.met_places, lane_id(), shared.my_places, first + r);
        const float weight = seen ? exp2f(scores[r] - shared.met_places.lse[lane_id()]) : 0.0F;
        dscores[r] = weight * (dscores[r] - shared.met_places.delta[lane_id()]);
        weights[r][lane_id()] = weight;
      }
      __syncwarp();
      dv.add(weights, shared.met[1]);
      __syncwarp();
#pragma unroll
      for (int r = 0; r < kMine<kSize>; ++r) weights[r][lane_id()] = dscores[r];
      __syncwarp();
      dk.add(weights, shared.met[0]);
      __syncthreads();
    });
  }
#pragma unroll
  for (int r = 0; r < kMine<kSize>; ++r) {
    if (first + r >= keys.count) continue;
    const std::int64_t token = own.begin + shared.my_places.position[first + r];
    dv.store(row_of<T>(args.dv, token, work.head), r, 1, args.accumulate, args.size);
  }
  // The queries were scaled by scale * log2(e).
  store_gradients<T>(dk, args.dk, work.head, kLn2, args, own, shared.my_places, shared.mine[0],
                     keys.count);
}

unsigned blocks_of(const AttentionArgs& args, std::int64_t heads) {
  return static_cast<unsigned>(args.plan.tile_count * kParts * heads);
}

}  // namespace

void plain_attention_forward(const AttentionArgs& args, DType dtype, cudaStream_t stream) {
  for_head(dtype, args.size, [&]<class T, int kSize>() {
    launch<plain_forward_kernel<T, kSize>>(blocks_of(args, args.heads), kThreads<kSize>,
                                           sizeof(Shared<kSize>), stream, args);
  });
}

void plain_attention_backward(const AttentionArgs& args, DType dtype, cudaStream_t stream) {
  for_head(dtype, args.size, [&]<class T, int kSize>() {
    launch<plain_dq_kernel<T, kSize>>(blocks_of(args, args.heads), kThreads<kSize>,
                                      sizeof(Shared<kSize>), stream, args);
    launch<plain_dkv_kernel<T, kSize>>(blocks_of(args, args.kv_heads), kThreads<kSize>,
                                       sizeof(Shared<kSize>), stream, args);
  });
}

}  // namespace flywheel::cuda
