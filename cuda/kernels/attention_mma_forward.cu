// Attention forward on tensor cores: online softmax (Dao 2023) over the chunks of keys that a tile
// of 128 queries meets, blocks of 16 x 16 at a time.
#include "cuda/kernels/attention_mma.h"

namespace flywheel::cuda {
namespace {

constexpr int kGroups = 2;            // of 16 queries, a warp
constexpr float kNoMaximum = -1e30F;  // finite, so that no difference is NaN

template <int kSize>
struct Stage {
  RowTile<kChunk, kSize> k, v;
};

template <int kSize>
struct Shared {
  RowTile<kAttentionTile, kSize> q;
  Stage<kSize> stages[2];
  Place own[kAttentionTile];
  Place places[3][kChunk];
  AttentionTile tile;  // here it takes no registers
};

// Blocks whose scores a thread holds at a time: as many as registers allow.
template <int kSize>
constexpr int kStep = kSize == 64 ? kBlocks : kBlocks / 2;
template <int kSize>
using Scores = BlockSums[kGroups][kStep<kSize>];

template <int kSize>
__device__ __forceinline__ void multiply_keys(Scores<kSize>& scores,
                                              RowTile<kAttentionTile, kSize>& q,
                                              RowTile<kChunk, kSize>& k, int row, unsigned run) {
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int block = 0; block < kStep<kSize>; ++block) {
#pragma unroll
      for (int i = 0; i < 8; ++i) scores[group][block][i / 4][i % 4] = 0;
    }
  }
#pragma unroll 4
  for (int step = 0; step < kSize / 16; ++step) {
    LeftFragment queries[kGroups];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      queries[group] = load_left(q, row_of_group(group), step);
    }
#pragma unroll
    for (int block = 0; block < kStep<kSize>; ++block) {
      if (!any(run, block)) continue;
      const RightFragment keys = load_right(k, row + block * kGroup, step);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        if (!has(run, group, block)) continue;
        BlockSums& sums = scores[group][block];
        multiply(sums[0], sums[1], queries[group], keys);
      }
    }
  }
}

// A group's sums over the keys so far. Index half is that of rows l / 4 and 8 more.
template <int kSize>
struct GroupState {
  float out[kSize / 8][4];
  float top[2];
  float sum[2];  // the lane's part

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top[half] = kNoMaximum;
      sum[half] = 0;
    }
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[n][e] = 0;
    }
  }

  // Turns the scores of the blocks in `run` into weights, by the largest score so far.
  __device__ __forceinline__ void softmax(BlockSums (&scores)[kStep<kSize>], unsigned run,
                                          int group, float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float new_top = top[half];
#pragma unroll
      for (int block = 0; block < kStep<kSize>; ++block) {
        if (!has(run, group, block)) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          new_top = fmaxf(new_top, scores[block][i / 2][half * 2 + i % 2]);
        }
      }
      new_top = fmaxf(new_top, __shfl_xor_sync(kAllLanes, new_top, 1));
      new_top = fmaxf(new_top, __shfl_xor_sync(kAllLanes, new_top, 2));
      const float correction = fast_exp2((top[half] - new_top) * scale);
      top[half] = new_top;
      sum[half] *= correction;
#pragma unroll
      for (int block = 0; block < kStep<kSize>; ++block) {
        if (!has(run, group, block)) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& score = scores[block][i / 2][half * 2 + i % 2];
          score = fast_exp2(score * scale - new_top * scale);
          sum[half] += score;
        }
      }
#pragma unroll
      for (int n = 0; n < kSize / 8; ++n) {
        out[n][half * 2] *= correction;
        out[n][half * 2 + 1] *= correction;
      }
    }
  }

  __device__ __forceinline__ float total(int half) const {
    float total = sum[half];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    return total + __shfl_xor_sync(kAllLanes, total, 2);
  }
};

template <int kSize>
__device__ __forceinline__ void add_values(GroupState<kSize> (&states)[kGroups],
                                           const Scores<kSize>& weights, RowTile<kChunk, kSize>& v,
                                           int row, unsigned run) {
#pragma unroll
  for (int block = 0; block < kStep<kSize>; ++block) {
    if (!any(run, block)) continue;
    LeftFragment left[kGroups];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) left[group] = as_left(weights[group][block]);
#pragma unroll
    for (int n = 0; n < kSize / 16; ++n) {
      const RightFragment values = load_right_rows(v, row + block * kGroup, n);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        if (!has(run, group, block)) continue;
        multiply(states[group].out[2 * n], states[group].out[2 * n + 1], left[group], values);
      }
    }
  }
}

template <int kSize>
__global__ void __launch_bounds__(kMmaThreads, 1) mma_forward_kernel(AttentionArgs args) {
  auto& shared = dynamic_shared<Shared<kSize>>();
  const std::int64_t head = blockIdx.x % args.heads;
  const std::int64_t kv_head = head / (args.heads / args.kv_heads);
  if (threadIdx.x == 0) shared.tile = args.plan.tiles[blockIdx.x / args.heads];
  __syncthreads();
  const AttentionTile& own = shared.tile;
  const Part queries = part_of(own, {own.tile, 0}, 0, kAttentionTile);
  const int thread = static_cast<int>(threadIdx.x);
  shared.own[thread] = place_of(args.plan, own, queries, thread, kNoQuery);
  __syncthreads();
  gather(shared.q, args.q, head, own, shared.own, queries.count);

  GroupState<kSize> states[kGroups];
  for (GroupState<kSize>& state : states) state.clear();
  const auto position = [&](std::int32_t r) { return shared.own[r].position; };
  const Span mine =
      span_of_queries(position, row_of_group(lane_id() / kBlocks % kGroups), queries.count);
  const float scale = args.scale * kLog2E;
  for_chunks(
      ChunkWalk<true>(own, queries), args.plan, own, shared, kNoKey,
      [&](Stage<kSize>& stage, const Part& keys, const Place* places) {
        gather(stage.k, args.k, kv_head, own, places, keys.count);
        gather(stage.v, args.v, kv_head, own, places, keys.count);
      },
      [&](Stage<kSize>& stage, const Part& keys, const Place* places) {
        const BlockChoice choice = choose_blocks<true, kGroups>(own, mine, keys, places);
#pragma unroll 1
        for (int first = 0; first < kBlocks; first += kStep<kSize>) {
          const unsigned run = choice.run >> first;
          const int row = first * kGroup;
          Scores<kSize> scores;
          multiply_keys(scores, shared.q, stage.k, row, run);
#pragma unroll
          for (int group = 0; group < kGroups; ++group) {
            const Place* rows = &shared.own[row_of_group(group)];
#pragma unroll
            for (int block = 0; block < kStep<kSize>; ++block) {
              if (!has(choice.masked >> first, group, block)) continue;
              mask<true>(scores[group][block], own, choice.in_band, rows,
                         places + row + block * kGroup);
            }
            states[group].softmax(scores[group], run, group, scale);
          }
          add_values(states, scores, stage.v, row, run);
        }
      });

#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const int first = row_of_group(group);
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = states[group].total(half);
      factors[half] = 1.0F / total;
      const int r = first + lane_id() / 4 + half * 8;
      if (r < queries.count && lane_id() % 4 == 0) {
        args.lse[head * args.tokens + own.begin + shared.own[r].position] =
            states[group].top[half] * args.scale + logf(total);
      }
    }
    store_rows(args.out, head, own, shared.own, queries.count, false, Rope(), shared.q, first,
               states[group].out, factors);
  }
}

}  // namespace

void mma_attention_forward(const AttentionArgs& args, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(args.plan.tile_count * args.heads);
  const auto queue = [&]<int kSize>() {
    launch<mma_forward_kernel<kSize>>(blocks, kMmaThreads, sizeof(Shared<kSize>), stream, args);
  };
  args.size == 64 ? queue.template operator()<64>() : queue.template operator()<128>();
}

}  // namespace flywheel::cuda
