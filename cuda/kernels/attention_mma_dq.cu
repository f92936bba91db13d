// The gradient of attention's queries on tensor cores; before, the statistics of the queries for
// this pass and the one over keys.
#include "cuda/kernels/attention_mma_backward.h"

namespace flywheel::cuda {
namespace {

constexpr int kGroups = 2;  // of 16 queries, a warp

template <int kSize>
struct Stage {
  RowTile<kChunk, kSize> k, v;
};

template <int kSize>
struct Shared {
  RowTile<kAttentionTile, kSize> q, dout;
  Stage<kSize> stages[2];
  Place own[kAttentionTile];
  Place places[3][kChunk];
  Statistics statistics[kAttentionTile];
  AttentionTile tile;  // here it takes no registers
};

// Lanes share a row, 16 bytes each.
template <int kSize>
__device__ __forceinline__ float product_of_rows(const bf16* x, const bf16* y) {
  constexpr int kLanes = kSize / 8;
  const int first = lane_id() % kLanes * 8;
  const Floats<8> a = load<8>(x + first);
  const Floats<8> b = load<8>(y + first);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  return sum;
}

// Of a padded row: zeros.
template <int kSize>
__device__ __forceinline__ void compute_statistics(Shared<kSize>& shared, const AttentionArgs& args,
                                                   std::int64_t head, const Part& queries) {
  constexpr int kLanes = kSize / 8;
  constexpr int kRowsAtOnce = kMmaThreads / kLanes;
  const AttentionTile& own = shared.tile;
  auto* kept = reinterpret_cast<Statistics*>(args.statistics) + head * args.plan.even_tokens +
               own.even_begin + slot_of(queries, 0);
#pragma unroll 1
  for (int first = 0; first < kAttentionTile; first += kRowsAtOnce) {
    const int row = first + static_cast<int>(threadIdx.x) / kLanes;
    const bool real = row < queries.count;
    const std::int64_t token = own.begin + (real ? shared.own[row].position : 0);
    const float delta = product_of_rows<kSize>(row_of<const bf16>(args.dout, token, head),
                                               row_of<const bf16>(args.out, token, head));
    if (lane_id() % kLanes != 0) continue;
    Statistics query{0, 0};
    if (real) query = {args.lse[head * args.tokens + token] * kLog2E, delta};
    shared.statistics[row] = query;
    if (row < queries.count + queries.count % 2) kept[row] = query;
  }
}

template <int kSize>
__global__ void __launch_bounds__(kMmaThreads, 1) mma_dq_kernel(AttentionArgs args) {
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
  gather(shared.dout, args.dout, head, own, shared.own, queries.count);
  compute_statistics(shared, args, head, queries);

  float dq[kGroups][kSize / 8][4];
  clear_sums<kGroups, kSize>(dq);
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
        for (int first = 0; first < kBlocks; first += kPairs) {
          const unsigned run = choice.run >> first;
          const int row = first * kGroup;
          BackwardBlocks<kGroups> blocks;
          blocks.multiply_rows(shared.q, shared.dout, stage.k, stage.v, row, run);
#pragma unroll
          for (int group = 0; group < kGroups; ++group) {
            const int mine_first = row_of_group(group);
#pragma unroll
            for (int block = 0; block < kPairs; ++block) {
              if (!has(run, group, block)) continue;
              if (has(choice.masked >> first, group, block)) {
                mask<true>(blocks.scores[group][block], own, choice.in_band,
                           &shared.own[mine_first], places + row + block * kGroup);
              }
              blocks.differentiate(group, block, scale, [&](int query, int /*key*/) {
                return shared.statistics[mine_first + query];
              });
            }
          }
          add_rows<kGroups, kSize>(dq, blocks.gradients, stage.k, row, run);
        }
      });
  const float factors[2] = {args.scale, args.scale};
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    store_rows(args.dq, head, own, shared.own, queries.count, args.accumulate, args.rope, shared.q,
               row_of_group(group), dq[group], factors);
  }
}

}  // namespace

void mma_attention_dq(const AttentionArgs& args, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(args.plan.tile_count * args.heads);
  const auto queue = [&]<int kSize>() {
    launch<mma_dq_kernel<kSize>>(blocks, kMmaThreads, sizeof(Shared<kSize>), stream, args);
  };
  args.size == 64 ? queue.template operator()<64>() : queue.template operator()<128>();
}

}  // namespace flywheel::cuda
