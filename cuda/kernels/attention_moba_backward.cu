// Mixture of block attention, backward (docs/attention.md), in float arithmetic for any type and
// head size. The choice of blocks is made again; given it, the gradient is that of softmax
// attention over each query's visible keys.
#include "cuda/kernels/attention_moba_walk.h"
#include "cuda/kernels/attention_rows.h"
#include "cuda/kernels/dispatch.h"

namespace flywheel::cuda {
namespace {

constexpr int kQueryWarps = 4;  // of a CUDA block of the dQ pass

template <int kSize>
struct QueryShared {
  alignas(16) float q[kQueryWarps][kSize + 4];
  alignas(16) float dout[kQueryWarps][kSize + 4];
  Rows<kSize> met[kQueryWarps];
};

// Rows [0, count) of a head's neighbouring tokens, for the warp alone.
template <class T, int kSize>
__device__ __forceinline__ void load_neighbours(Rows<kSize>& rows, const HeadRows& from,
                                                std::int64_t head, std::int64_t token, int count,
                                                std::int32_t size) {
  for (int r = 0; r < count; ++r) {
    const T* row = row_of<const T>(from, token + r, head);
    for (std::int32_t c = lane_id(); c < kSize; c += kWarp) {
      rows.at[r][c] = c < size ? to_float(row[c]) : 0.0F;
    }
  }
}

// mine times the lane's row, of rows [0, count).
template <int kSize>
__device__ __forceinline__ float multiply_row(const float (&mine)[kSize + 4],
                                              const Rows<kSize>& met, int count,
                                              std::int32_t size) {
  float sum = 0;
  for (std::int32_t c = 0; lane_id() < count && c < size; c += 4) {
    const Floats<4> x = load<4>(&mine[c]);
    const Floats<4> y = load<4>(&met.at[lane_id()][c]);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += x[i] * y[i];
  }
  return sum;
}

// A query of a warp.
struct QueryRow {
  std::int64_t head, kv_head;
  std::int64_t begin;  // the first token of its sequence
  float lse;           // in base 2
  float delta;         // dout . out
};

// Adds what the keys [begin, end) of the sequence give to dq.
template <class T, int kSize>
__device__ __forceinline__ void add_keys(Sums<kSize, 1>& dq, QueryShared<kSize>& shared,
                                         const AttentionArgs& args, const QueryRow& query,
                                         std::int64_t begin, std::int64_t end) {
  auto& met = shared.met[warp_id()];
  for (std::int64_t at = begin; at < end; at += kRows) {
    const int count = static_cast<int>(end - at < kRows ? end - at : kRows);
    const std::int64_t token = query.begin + at;
    load_neighbours<T>(met, args.v, query.kv_head, token, count, args.size);
    __syncwarp();
    const float dweight = multiply_row(shared.dout[warp_id()], met, count, args.size);
    __syncwarp();
    load_neighbours<T>(met, args.k, query.kv_head, token, count, args.size);
    __syncwarp();
    const float score = multiply_row(shared.q[warp_id()], met, count, args.size);
    const float dscore = exp2f(score - query.lse) * (dweight - query.delta);
    for (int r = 0; r < count; ++r) {
      const float factor = __shfl_sync(kAllLanes, dscore, r);
#pragma unroll
      for (int j = 0; j < Sums<kSize, 1>::kEach; ++j) {
        dq.at[0][j] += factor * met.at[r][lane_id() + j * kWarp];
      }
    }
    __syncwarp();
  }
}

// A warp takes every kQueryWarps-th query: its own block, then those that it chose.
template <class T, int kSize>
__global__ void __launch_bounds__(kQueryWarps* kWarp, 1) moba_dq_kernel(MobaArgs moba) {
  auto& shared = dynamic_shared<QueryShared<kSize>>();
  const AttentionArgs& args = moba.attention;
  const Queries queries(moba);
  auto& my_q = shared.q[warp_id()];
  auto& my_dout = shared.dout[warp_id()];
  for (std::int32_t r = warp_id(); r < queries.count; r += kQueryWarps) {
    const std::int64_t position = queries.first + r;
    const std::int64_t token = queries.own.begin + position;
    const T* q = row_of<const T>(args.q, token, queries.head);
    const T* out = row_of<const T>(args.out, token, queries.head);
    const T* dout = row_of<const T>(args.dout, token, queries.head);
    float delta = 0;
    for (std::int32_t c = lane_id(); c < args.size; c += kWarp) {
      my_q[c] = to_float(q[c]) * (args.scale * kLog2E);
      my_dout[c] = to_float(dout[c]);
      delta += my_dout[c] * to_float(out[c]);
    }
    delta = warp_sum(delta);
    const std::int64_t statistic = queries.head * args.tokens + token;
    if (lane_id() == 0) args.statistics[statistic] = delta;
    __syncwarp();
    const QueryRow query{queries.head, queries.kv_head, queries.own.begin,
                         args.lse[statistic] * kLog2E, delta};
    Sums<kSize, 1> dq;
    add_keys<T>(dq, shared, args, query, position / moba.block * moba.block, position + 1);
    const std::int64_t at = places_of(moba, queries.head, token);
    for (std::int64_t place = 0; place < moba.places; ++place) {
      const std::int64_t block = moba.chosen[at + place];
      if (block < 0) break;
      add_keys<T>(dq, shared, args, query, block * moba.block, (block + 1) * moba.block);
    }
    T* target = row_of<T>(args.dq, token, queries.head);
    if (args.rope.cos) {
      dq.store_turned(target, 0, args.scale, args.accumulate, args.size, args.rope, token, my_q);
    } else {
      dq.store(target, 0, args.scale, args.accumulate, args.size);
    }
    __syncwarp();
  }
}

// Queries that see some of a CUDA block's keys and wait to be met.
template <int kSize>
struct Waiting {
  std::int32_t position[kRows + kThreads<kSize>];
  unsigned seen[kRows + kThreads<kSize>];  // bit r: the query sees key r
  std::int32_t found[kWarps<kSize>];       // of each warp
};

template <int kSize>
struct KeyShared {
  Rows<kSize> mine[2];
  Rows<kSize> met[2];
  Places my_places;
  float lse[kRows];
  float delta[kRows];
  alignas(16) float weights[kWarps<kSize>][kMine<kSize>][kRows];
  Waiting<kSize> waiting;
};

// A CUDA block's keys, neighbours of a key head.
struct Keys {
  AttentionTile own;
  std::int64_t head;
  Part part;
  std::int32_t first;  // position

  // Of all attention the first keys are seen most: their tiles are the last of the list.
  __device__ __forceinline__ explicit Keys(const MobaArgs& args) {
    const std::int64_t rest = blockIdx.x / args.kv_heads;
    head = args.first_kv_head + blockIdx.x % args.kv_heads;
    own = args.attention.plan.tiles[args.attention.plan.tile_count - 1 - rest / kMobaParts];
    part = part_of(own, {own.tile, 0}, static_cast<std::int32_t>(rest % kMobaParts));
    first = slot_of(part, 0);
  }
};

// Bit r: key first + r of `count` is at [begin, end).
__device__ __forceinline__ unsigned rows_between(const Keys& keys, std::int64_t begin,
                                                 std::int64_t end) {
  const std::int64_t low = begin < keys.first ? 0 : begin - keys.first;
  const std::int64_t last = keys.first + keys.part.count;
  const std::int64_t high = (end < last ? end : last) - keys.first;
  if (low >= high) return 0;
  return kAllLanes >> (kWarp - static_cast<int>(high - low)) << static_cast<int>(low);
}

__device__ __forceinline__ unsigned seen_keys(const MobaArgs& args, const Keys& keys,
                                              std::int64_t head, std::int32_t position) {
  unsigned seen = rows_between(keys, position / args.block * args.block, position + 1);
  const std::int64_t at = places_of(args, head, std::int64_t{keys.own.begin} + position);
  for (std::int64_t place = 0; place < args.places; ++place) {
    const std::int64_t block = args.chosen[at + place];
    if (block < 0) break;
    seen |= rows_between(keys, block * args.block, (block + 1) * args.block);
  }
  return seen;
}

// Appends those of a thread's queries, neighbours from `first` on, that see some of the keys; at
// most kRows - 1 wait already. Returns how many wait then.
template <int kSize>
__device__ __forceinline__ std::int32_t find_queries(Waiting<kSize>& waiting, std::int32_t count,
                                                     const MobaArgs& args, const Keys& keys,
                                                     std::int64_t head, std::int32_t first) {
  const std::int32_t position = first + static_cast<std::int32_t>(threadIdx.x);
  const unsigned seen = position < keys.own.length ? seen_keys(args, keys, head, position) : 0;
  const unsigned found = __ballot_sync(kAllLanes, seen != 0);
  if (lane_id() == 0) waiting.found[warp_id()] = __popc(found);
  __syncthreads();
  std::int32_t total = count;
  std::int32_t place = count + __popc(found & ((1U << lane_id()) - 1));
  for (int warp = 0; warp < kWarps<kSize>; ++warp) {
    if (warp < warp_id()) place += waiting.found[warp];
    total += waiting.found[warp];
  }
  if (seen != 0) {
    waiting.position[place] = position;
    waiting.seen[place] = seen;
  }
  __syncthreads();
  return total;
}

// Adds what the queries [at, at + count) of those that wait give to the gradients of the keys.
template <class T, int kSize>
__device__ __forceinline__ void meet_queries(Sums<kSize>& dk, Sums<kSize>& dv,
                                             KeyShared<kSize>& shared, const AttentionArgs& args,
                                             const Keys& keys, std::int64_t head, std::int32_t at,
                                             std::int32_t count) {
  const auto token_of = [&](std::int32_t row) {
    return std::int64_t{keys.own.begin} + shared.waiting.position[at + row];
  };
  if (warp_id() == 0) {
    const bool real = lane_id() < count;
    const std::int64_t statistic = head * args.tokens + token_of(real ? lane_id() : 0);
    shared.lse[lane_id()] = real ? args.lse[statistic] * kLog2E : 0.0F;
    shared.delta[lane_id()] = real ? args.statistics[statistic] : 0.0F;
  }
  load_rows<T>(shared.met[0], args.q, head, args.size, count, args.scale * kLog2E, token_of);
  load_rows<T>(shared.met[1], args.dout, head, args.size, count, 1, token_of);
  __syncthreads();
  float scores[kMine<kSize>];
  float dscores[kMine<kSize>];
  multiply_rows(scores, shared.mine[0], shared.met[0], args.size);
  multiply_rows(dscores, shared.mine[1], shared.met[1], args.size);
  auto& weights = shared.weights[warp_id()];
  const unsigned seen = lane_id() < count ? shared.waiting.seen[at + lane_id()] : 0;
#pragma unroll
  for (int r = 0; r < kMine<kSize>; ++r) {
    const bool sees = (seen >> (warp_id() * kMine<kSize> + r) & 1) != 0;
    const float weight = sees ? exp2f(scores[r] - shared.lse[lane_id()]) : 0.0F;
    dscores[r] = weight * (dscores[r] - shared.delta[lane_id()]);
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
}

// For each query head in order, the queries that see some of the keys are found in order and met
// kRows at a time.
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads<kSize>, 1) moba_dkv_kernel(MobaArgs moba) {
  auto& shared = dynamic_shared<KeyShared<kSize>>();
  const AttentionArgs& args = moba.attention;
  const Keys keys(moba);
  if (keys.part.count <= 0) return;
  place_rows(shared.my_places, args, keys.own, keys.part, kNoKey);
  load_rows<T>(shared.mine[0], args.k, keys.head, args, keys.own, keys.part, 1);
  load_rows<T>(shared.mine[1], args.v, keys.head, args, keys.own, keys.part, 1);

  Sums<kSize> dk;
  Sums<kSize> dv;
  auto& waiting = shared.waiting;
  for (std::int64_t head = keys.head * moba.group(); head < (keys.head + 1) * moba.group();
       ++head) {
    std::int32_t next = keys.first;  // query to look at
    std::int32_t met = 0;            // of those in `waiting`
    std::int32_t count = 0;
    while (true) {
      if (count - met < kRows && next < keys.own.length) {
        // Those behind the ones met, fewer than these, move to the front.
        const std::int32_t rest = count - met;
        const std::int32_t mine = static_cast<std::int32_t>(threadIdx.x);
        if (met > 0 && mine < rest) {
          waiting.position[mine] = waiting.position[met + mine];
          waiting.seen[mine] = waiting.seen[met + mine];
        }
        met = 0;
        count = find_queries(waiting, rest, moba, keys, head, next);
        next += kThreads<kSize>;
        continue;
      }
      if (met == count) break;
      const std::int32_t some = count - met < kRows ? count - met : kRows;
      meet_queries<T>(dk, dv, shared, args, keys, head, met, some);
      met += some;
    }
  }
  const int first = warp_id() * kMine<kSize>;
#pragma unroll
  for (int r = 0; r < kMine<kSize>; ++r) {
    if (first + r >= keys.part.count) continue;
    const std::int64_t token = std::int64_t{keys.own.begin} + keys.first + first + r;
    dv.store(row_of<T>(args.dv, token, keys.head), r, 1, args.accumulate, args.size);
  }
  // The queries were scaled by scale * log2(e).
  store_gradients<T>(dk, args.dk, keys.head, kLn2, args, keys.own, shared.my_places, shared.mine[0],
                     keys.part.count);
}

}  // namespace

void moba_attention_backward(const AttentionArgs& args, const MobaShape& shape, DType dtype,
                             const Workspace& workspace, cudaStream_t stream) {
  AttentionArgs with_statistics = args;
  with_statistics.statistics = scratch<float>(workspace, 0, args.heads * args.tokens);
  const std::int64_t used = args.heads * args.tokens * size_of(DType::F32);
  const Workspace rest{workspace.data + used, workspace.bytes - used};
  for_passes(moba_args(with_statistics, shape, rest), [&](const MobaArgs& pass) {
    choose_blocks(pass, dtype, stream);
    const std::int64_t parts = args.plan.tile_count * kMobaParts * pass.kv_heads;
    for_head(dtype, args.size, [&]<class T, int kSize>() {
      launch<moba_dq_kernel<T, kSize>>(static_cast<unsigned>(parts * pass.group()),
                                       kQueryWarps * kWarp, sizeof(QueryShared<kSize>), stream,
                                       pass);
      launch<moba_dkv_kernel<T, kSize>>(static_cast<unsigned>(parts), kThreads<kSize>,
                                        sizeof(KeyShared<kSize>), stream, pass);
    });
  });
}

}  // namespace flywheel::cuda
