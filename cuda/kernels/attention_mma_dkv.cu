// The gradients of attention's keys and values on tensor cores: keys are the rows, the queries that
// see them pass by, for each query head that shares the keys.
#include "cuda/kernels/attention_mma_backward.h"

namespace flywheel::cuda {
namespace {

// Two groups of 16 keys a warp, or one where their sums would not fit into registers.
template <int kSize>
constexpr int kGroups = kSize == 64 ? 2 : 1;
template <int kSize>
constexpr int kKeys = kGroups<kSize>* kMmaWarps* kGroup;
template <int kSize>
constexpr int kParts = kAttentionTile / kKeys<kSize>;

template <int kSize>
struct Stage {
  RowTile<kChunk, kSize> q, dout;
  alignas(16) Statistics statistics[kChunk];
};

template <int kSize>
struct Shared {
  RowTile<kKeys<kSize>, kSize> k, v;
  Stage<kSize> stages[2];
  Place own[kKeys<kSize>];
  Place places[3][kChunk];
  AttentionTile tile;  // here it takes no registers
};

// Two queries a copy; behind an odd number of queries lie zeros.
template <int kSize>
__device__ __forceinline__ void copy_statistics(Stage<kSize>& stage, const AttentionArgs& args,
                                                std::int64_t head, const AttentionTile& own,
                                                const Part& queries) {
  const int row = static_cast<int>(threadIdx.x) * 2;
  if (row >= kChunk) return;
  const bool real = row < queries.count;
  const auto* kept = reinterpret_cast<const Statistics*>(args.statistics) +
                     head * args.plan.even_tokens + own.even_begin + slot_of(queries, 0);
  cp_async_16(&stage.statistics[row], kept + (real ? row : 0), real);
}

template <int kSize>
__global__ void __launch_bounds__(kMmaThreads, 1) mma_dkv_kernel(AttentionArgs args) {
  auto& shared = dynamic_shared<Shared<kSize>>();
  const std::int64_t kv_head = blockIdx.x % args.kv_heads;
  const std::int64_t part = blockIdx.x / args.kv_heads;
  // Of full attention the first keys are seen most: those tiles are the last of the list.
  if (threadIdx.x == 0) {
    shared.tile = args.plan.tiles[args.plan.tile_count - 1 - part / kParts<kSize>];
  }
  __syncthreads();
  const AttentionTile& own = shared.tile;
  const Part keys =
      part_of(own, {own.tile, 0}, static_cast<std::int32_t>(part % kParts<kSize>) * kKeys<kSize>,
              kKeys<kSize>);
  if (keys.count <= 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kKeys<kSize>) {
    shared.own[thread] = place_of(args.plan, own, keys, thread, kNoKey);
  }
  __syncthreads();
  gather(shared.k, args.k, kv_head, own, shared.own, keys.count);
  gather(shared.v, args.v, kv_head, own, shared.own, keys.count);

  float dk[kGroups<kSize>][kSize / 8][4];
  float dv[kGroups<kSize>][kSize / 8][4];
  clear_sums<kGroups<kSize>, kSize>(dk);
  clear_sums<kGroups<kSize>, kSize>(dv);
  const auto position = [&](std::int32_t r) { return shared.own[r].position; };
  const Span mine =
      span_of_keys(position, row_of_group(lane_id() / kBlocks % kGroups<kSize>), keys.count);
  const float scale = args.scale * kLog2E;
  const std::int64_t group_heads = args.heads / args.kv_heads;
  for (std::int64_t head = kv_head * group_heads; head < (kv_head + 1) * group_heads; ++head) {
    for_chunks(
        ChunkWalk<false>(own, keys), args.plan, own, shared, kNoQuery,
        [&](Stage<kSize>& stage, const Part& queries, const Place* places) {
          gather(stage.q, args.q, head, own, places, queries.count);
          gather(stage.dout, args.dout, head, own, places, queries.count);
          copy_statistics(stage, args, head, own, queries);
        },
        [&](Stage<kSize>& stage, const Part& queries, const Place* places) {
          const BlockChoice choice =
              choose_blocks<false, kGroups<kSize>>(own, mine, queries, places);
#pragma unroll 1
          for (int first = 0; first < kBlocks; first += kPairs) {
            const unsigned run = choice.run >> first;
            const int row = first * kGroup;
            BackwardBlocks<kGroups<kSize>> blocks;
            blocks.multiply_rows(shared.k, shared.v, stage.q, stage.dout, row, run);
#pragma unroll
            for (int group = 0; group < kGroups<kSize>; ++group) {
#pragma unroll
              for (int block = 0; block < kPairs; ++block) {
                if (!has(run, group, block)) continue;
                const int column = row + block * kGroup;
                if (has(choice.masked >> first, group, block)) {
                  mask<false>(blocks.scores[group][block], own, choice.in_band,
                              &shared.own[row_of_group(group)], places + column);
                }
                blocks.differentiate(group, block, scale, [&](int /*key*/, int query) {
                  return stage.statistics[column + query];
                });
              }
            }
            add_rows<kGroups<kSize>, kSize>(dv, blocks.scores, stage.dout, row, run);
            add_rows<kGroups<kSize>, kSize>(dk, blocks.gradients, stage.q, row, run);
          }
        });
  }
  const float dk_factors[2] = {args.scale, args.scale};
  const float dv_factors[2] = {1, 1};
#pragma unroll
  for (int group = 0; group < kGroups<kSize>; ++group) {
    const int row = row_of_group(group);
    store_rows(args.dk, kv_head, own, shared.own, keys.count, args.accumulate, args.rope, shared.k,
               row, dk[group], dk_factors);
    store_rows(args.dv, kv_head, own, shared.own, keys.count, args.accumulate, Rope(), shared.v,
               row, dv[group], dv_factors);
  }
}

}  // namespace

void mma_attention_dkv(const AttentionArgs& args, cudaStream_t stream) {
  const auto queue = [&]<int kSize>() {
    const auto blocks = static_cast<unsigned>(args.plan.tile_count * kParts<kSize> * args.kv_heads);
    launch<mma_dkv_kernel<kSize>>(blocks, kMmaThreads, sizeof(Shared<kSize>), stream, args);
  };
  args.size == 64 ? queue.template operator()<64>() : queue.template operator()<128>();
}

}  // namespace flywheel::cuda
