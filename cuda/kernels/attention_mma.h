#pragma once

// What the tensor-core kernels of attention share. A block of 4 warps owns the rows of a tile and
// meets others in chunks of 64, which cp.async gathers two deep. Rows of bf16 lie in shared memory
// in pieces of 16 bytes, swizzled so that neither copies nor ldmatrix meet bank conflicts.
#include "cuda/device/intrinsics.h"
#include "cuda/kernels/attention_blocks.h"
#include "cuda/kernels/rope_rotation.h"

namespace flywheel::cuda {

constexpr int kMmaWarps = 4;
constexpr int kMmaThreads = kMmaWarps * kWarp;

template <int kRows, int kSize>
struct RowTile {
  static constexpr int kPieces = kSize / 8;
  struct alignas(16) Piece {
    bf16 at[8];
  };
  Piece pieces[kRows][kPieces];

  __device__ __forceinline__ Piece& piece(int row, int i) { return pieces[row][i ^ (row % 8)]; }
};

// Where a row lies.
struct alignas(8) Place {
  std::int32_t position, rank;
};

// Of a query: lse times log2(e), and the sum of dout * out.
struct alignas(8) Statistics {
  float lse, delta;
};

__device__ __forceinline__ Place place_of(const DevicePlan& plan, const AttentionTile& own,
                                          const Part& part, std::int32_t row,
                                          std::int32_t padding) {
  if (row >= part.count) return {padding, 0};
  return {position_of(plan, own, part, row), rank_of(plan, own, part, row)};
}

// Queues the copies of a part's rows; zeros for those beyond its count.
template <int kRows, int kSize>
__device__ __forceinline__ void gather(RowTile<kRows, kSize>& to, const HeadRows& from,
                                       std::int64_t head, const AttentionTile& own,
                                       const Place* places, std::int32_t count) {
  constexpr int kPieces = kSize / 8;
#pragma unroll
  for (int i = 0; i < kRows * kPieces / kMmaThreads; ++i) {
    const int row = static_cast<int>(threadIdx.x + i * kMmaThreads) / kPieces;
    const int piece = static_cast<int>(threadIdx.x) % kPieces;
    const bool real = row < count;
    const std::int32_t position = real ? places[row].position : 0;
    cp_async_16(&to.piece(row, piece), row_of<bf16>(from, own.begin + position, head) + piece * 8,
                real);
  }
}

// Calls compute(stage, part, places) for each chunk of the walk, with `copy(stage, part, places)`
// queued one chunk ahead and the places read two ahead.
template <class Walk, class Shared, class Copy, class Compute>
__device__ __forceinline__ void for_chunks(Walk walk, const DevicePlan& plan,
                                           const AttentionTile& own, Shared& shared,
                                           std::int32_t padding, const Copy& copy,
                                           const Compute& compute) {
  const int row = static_cast<int>(threadIdx.x);
  const bool places = row < kChunk;
  Part part = walk.next();
  Part next = walk.next();
  __syncthreads();
  if (places) {
    shared.places[0][row] = place_of(plan, own, part, row, padding);
    shared.places[1][row] = place_of(plan, own, next, row, padding);
  }
  __syncthreads();
  copy(shared.stages[0], part, shared.places[0]);
  cp_async_commit();
  for (int i = 0; part.count > 0; ++i) {
    cp_async_wait<0>();
    __syncthreads();
    if (next.count > 0) copy(shared.stages[(i + 1) % 2], next, shared.places[(i + 1) % 3]);
    cp_async_commit();
    const Part after = walk.next();
    const Place ahead = places ? place_of(plan, own, after, row, padding) : Place{0, 0};
    compute(shared.stages[i % 2], part, shared.places[i % 3]);
    if (places) shared.places[(i + 2) % 3][row] = ahead;
    part = next;
    next = after;
  }
}

// The first row of group i of the warp's. Of a tile sorted by position the later rows see more
// keys: a warp gets one group from either end.
__device__ __forceinline__ int row_of_group(int i) {
  return kGroup * (i == 0 ? warp_id() : 2 * kMmaWarps - 1 - warp_id());
}

// Bit kBlocks * group + block.
struct BlockChoice {
  unsigned run;     // blocks with something to see
  unsigned masked;  // of these, those with something hidden
  bool in_band;     // no rank needs a test
};

__device__ __forceinline__ bool has(unsigned bits, int group, int block) {
  return (bits >> (kBlocks * group + block) & 1U) != 0;
}
__device__ __forceinline__ bool any(unsigned bits, int block) {
  return (bits & (((1U << kBlocks) + 1U) << block)) != 0;
}

// The blocks of the warp's groups and a chunk; each lane judges one. `mine` is the span of group
// lane / 4 % 2.
template <bool kOwnQueries, int kGroups>
__device__ __forceinline__ BlockChoice choose_blocks(const AttentionTile& own, Span mine,
                                                     const Part& part, const Place* places) {
  const int row = lane_id() % kBlocks * kGroup;
  const auto position = [&](std::int32_t r) { return places[r].position; };
  const Span theirs = kOwnQueries ? span_of_keys(position, row, part.count)
                                  : span_of_queries(position, row, part.count);
  const Span queries = kOwnQueries ? mine : theirs;
  const Span keys = kOwnQueries ? theirs : mine;
  const bool in_band = tiles_in_band<kOwnQueries>(own, part.tile);
  const bool run = meet(own, queries, keys);
  const bool masked = run && !all_visible(own, in_band, queries, keys);
  constexpr unsigned kBits = (1U << (kBlocks * kGroups)) - 1U;
  return {__ballot_sync(kAllLanes, run) & kBits, __ballot_sync(kAllLanes, masked) & kBits, in_band};
}

// Fragments of m16n8k16. Lane l holds, of 16 x 8 sums, rows l / 4 and 8 more, columns 2 (l % 4) and
// the next one.
struct LeftFragment {
  std::uint32_t at[4];
};
struct RightFragment {  // of 16 columns
  std::uint32_t at[2][2];
};
using BlockSums = float[2][4];  // of 16 x 16

// Rows [row, row + 16), channels [16 k, 16 k + 16).
template <int kRows, int kSize>
__device__ __forceinline__ LeftFragment load_left(RowTile<kRows, kSize>& tile, int row, int k) {
  LeftFragment fragment;
  ldmatrix_x4(fragment.at, &tile.piece(row + lane_id() % 16, 2 * k + lane_id() / 16));
  return fragment;
}
// The rows are the columns of the product.
template <int kRows, int kSize>
__device__ __forceinline__ RightFragment load_right(RowTile<kRows, kSize>& tile, int row, int k) {
  std::uint32_t at[4];
  ldmatrix_x4(at, &tile.piece(row + lane_id() / 16 * 8 + lane_id() % 8, 2 * k + lane_id() / 8 % 2));
  return {{{at[0], at[1]}, {at[2], at[3]}}};
}
// The rows are what is summed over, the channels the columns.
template <int kRows, int kSize>
__device__ __forceinline__ RightFragment load_right_rows(RowTile<kRows, kSize>& tile, int row,
                                                         int k) {
  std::uint32_t at[4];
  ldmatrix_x4_trans(at, &tile.piece(row + lane_id() % 16, 2 * k + lane_id() / 16));
  return {{{at[0], at[1]}, {at[2], at[3]}}};
}

__device__ __forceinline__ void multiply(float (&low)[4], float (&high)[4],
                                         const LeftFragment& left, const RightFragment& right) {
  mma_m16n8k16(low, left.at, right.at[0], low);
  mma_m16n8k16(high, left.at, right.at[1], high);
}

// 16 x 16 sums as the left side of a product.
__device__ __forceinline__ LeftFragment as_left(const BlockSums& x) {
  return {{pack_bf16(x[0][0], x[0][1]), pack_bf16(x[0][2], x[0][3]), pack_bf16(x[1][0], x[1][1]),
           pack_bf16(x[1][2], x[1][3])}};
}

// Hides the scores of pairs that do not see each other.
template <bool kOwnQueries>
__device__ __forceinline__ void mask(BlockSums& scores, const AttentionTile& own, bool in_band,
                                     const Place* mine, const Place* theirs) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const Place row = mine[lane_id() / 4 + e / 2 * 8];
      const Place column = theirs[n * 8 + lane_id() % 4 * 2 + e % 2];
      const Place query = kOwnQueries ? row : column;
      const Place key = kOwnQueries ? column : row;
      const bool seen =
          key.position <= query.position && (in_band || cuda::in_band(own, query.rank - key.rank));
      if (!seen) scores[n][e] = -INFINITY;
    }
  }
}

// Calls body(in the tile, in memory) for the lane's pieces of rows [row, row + 16), of which those
// below `count` are there.
template <int kRows, int kSize, class F>
__device__ __forceinline__ void for_pieces(RowTile<kRows, kSize>& tile, const HeadRows& rows,
                                           std::int64_t head, const AttentionTile& own,
                                           const Place* places, std::int32_t count, int row,
                                           const F& body) {
  constexpr int kPieces = kSize / 8;
  constexpr int kRowsAtOnce = kWarp / kPieces;
  const int piece = lane_id() % kPieces;
#pragma unroll
  for (int i = 0; i < kGroup / kRowsAtOnce; ++i) {
    const int r = row + i * kRowsAtOnce + lane_id() / kPieces;
    if (r >= count) continue;
    bf16* place = row_of<bf16>(rows, own.begin + places[r].position, head) + piece * 8;
    body(*reinterpret_cast<Access<16>*>(tile.piece(r, piece).at),
         *reinterpret_cast<Access<16>*>(place));
  }
}

// Where RoPE's tables have the angle of a token's channel, which is below D/2.
template <int kSize>
__device__ __forceinline__ std::int64_t angle_of(const Rope& rope, std::int64_t token,
                                                 int channel) {
  return std::int64_t{rope.positions[token]} * (kSize / 2) + channel;
}

// The lane's part of row r of the tile becomes, or grows by, factor times elements `first` and the
// next of its sums, and is then turned back by the angles from `angle` on if there is RoPE.
template <int kRows, int kSize>
__device__ __forceinline__ void place_row(RowTile<kRows, kSize>& tile, int r,
                                          const float (&sums)[kSize / 8][4], int first,
                                          float factor, bool accumulate, const Rope& rope,
                                          std::int64_t angle) {
  constexpr int kHalf = kSize / 16;  // pieces
  const int column = lane_id() % 4 * 2;
#pragma unroll
  for (int n = 0; n < kHalf; ++n) {
    bf16* low_place = &tile.piece(r, n).at[column];
    bf16* high_place = &tile.piece(r, n + kHalf).at[column];
    Floats<2> low{0, 0};
    Floats<2> high{0, 0};
    if (accumulate) {
      low = load<2>(low_place);
      high = load<2>(high_place);
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      low[e] += sums[n][first + e] * factor;
      high[e] += sums[n + kHalf][first + e] * factor;
    }
    if (rope.cos) {
      const Floats<2> cos = load<2>(rope.cos + angle + n * 8);
      const Floats<2> sin = load<2>(rope.sin + angle + n * 8);
#pragma unroll
      for (int e = 0; e < 2; ++e) turn_back(low[e], high[e], cos[e], sin[e]);
    }
    store<2>(low_place, low);
    store<2>(high_place, high);
  }
}

// Rows [row, row + 16) of `to` become, or grow by, sums times the factor of their half, and are
// then turned back if there is RoPE; through the warp's own rows of `tile`. Rounded once.
template <int kRows, int kSize>
__device__ __forceinline__ void store_rows(const HeadRows& to, std::int64_t head,
                                           const AttentionTile& own, const Place* places,
                                           std::int32_t count, bool accumulate, const Rope& rope,
                                           RowTile<kRows, kSize>& tile, int row,
                                           const float (&sums)[kSize / 8][4],
                                           const float (&factors)[2]) {
  __syncwarp();
  if (accumulate) {
    for_pieces(tile, to, head, own, places, count, row,
               [](Access<16>& here, const Access<16>& there) { here = there; });
    __syncwarp();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + lane_id() / 4 + half * 8;
    std::int64_t angle = 0;  // of a row that is not there: any
    if (rope.cos && r < count) {
      angle = angle_of<kSize>(rope, own.begin + places[r].position, lane_id() % 4 * 2);
    }
    place_row(tile, r, sums, half * 2, factors[half], accumulate, rope, angle);
  }
  __syncwarp();
  for_pieces(tile, to, head, own, places, count, row,
             [](const Access<16>& here, Access<16>& there) { there = here; });
}

}  // namespace flywheel::cuda
