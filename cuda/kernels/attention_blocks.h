#pragma once

// Which blocks of 16 x 16 scores the tensor-core kernels compute, and in which order the rows that
// a tile meets pass by. The host counts with the same functions (cuda/attention_counts.h).
#include "cuda/kernels/attention_walk.h"

namespace flywheel::cuda {

constexpr int kGroup = 16;  // rows, and columns, of a block
constexpr int kChunk = 64;  // rows of those met that are in shared memory together
constexpr int kBlocks = kChunk / kGroup;

// The first and the last position of a group of rows, which are ordered by position.
struct Span {
  std::int32_t first, last;
};

// Rows [row, row + kGroup) of keys or queries, of which those below `count` are there;
// position(row) is where one lies.
template <class F>
__host__ __device__ __forceinline__ Span span_of_keys(const F& position, std::int32_t row,
                                                      std::int32_t count) {
  const std::int32_t last = row + kGroup - 1;
  return {row < count ? position(row) : kNoKey, last < count ? position(last) : kNoKey};
}
template <class F>
__host__ __device__ __forceinline__ Span span_of_queries(const F& position, std::int32_t row,
                                                         std::int32_t count) {
  if (row >= count) return {kNoQuery, kNoQuery};
  return {position(row), position(row + kGroup <= count ? row + kGroup - 1 : count - 1)};
}

// Whether a query may see a key: causality, and of positions the window too.
__host__ __device__ __forceinline__ bool meet(const AttentionTile& own, Span queries, Span keys) {
  return keys.first <= queries.last && (own.ranked || queries.first - keys.last < own.slots);
}

// Whether every query sees every key. `in_band`: all ranks of the two tiles are in the band.
__host__ __device__ __forceinline__ bool all_visible(const AttentionTile& own, bool in_band,
                                                     Span queries, Span keys) {
  const bool banded = own.ranked ? in_band : queries.last - keys.first < own.slots;
  return banded && keys.last <= queries.first;
}

// Whether the ranks of the own tile, whose rows are queries or keys, and of another are all in the
// band.
template <bool kOwnQueries>
__host__ __device__ __forceinline__ bool tiles_in_band(const AttentionTile& own, MetTile met) {
  if (!own.ranked) return false;
  const std::int32_t first = own.tile * kAttentionTile;
  const std::int32_t met_first = met.tile * kAttentionTile + met.shift;
  const std::int32_t above = first + rows_of(own, own.tile) - 1 - met_first;
  const std::int32_t below = first - (met_first + rows_of(own, met.tile) - 1);
  const std::int32_t least = (kOwnQueries ? below : -above) + own.offset;
  const std::int32_t most = (kOwnQueries ? above : -below) + own.offset;
  const auto inside = [&](std::int32_t turn) {
    return least + turn >= 0 && most + turn < own.slots;
  };
  return inside(0) || (own.wrap != 0 && (inside(own.wrap) || inside(-own.wrap)));
}

// The chunks of keys that the queries of a tile meet, or of queries that its keys meet. Of a
// tile of ranks all are met; of positions, those that the rows `mine` of the tile can see.
template <bool kOwnQueries>
class ChunkWalk {
 public:
  __host__ __device__ __forceinline__ ChunkWalk(const AttentionTile& own, const Part& mine)
      : own_(own),
        mine_{slot_of(mine, 0), slot_of(mine, mine.count - 1)},
        tile_(kOwnQueries ? own.first_keys : own.first_queries) {}

  // A part without rows after the last one.
  __host__ __device__ __forceinline__ Part next() {
    const std::int32_t last = kOwnQueries ? own_.last_keys : own_.last_queries;
    while (tile_ <= last) {
      const Part part = part_of(own_, met_tile(own_, tile_), first_, kChunk);
      first_ += kChunk;
      if (first_ == kAttentionTile) {
        first_ = 0;
        ++tile_;
      }
      if (part.count > 0 && met(part)) return part;
    }
    return {{0, 0}, 0, 0};
  }

 private:
  __host__ __device__ __forceinline__ bool met(const Part& part) const {
    if (own_.ranked) return true;
    const Span theirs{slot_of(part, 0), slot_of(part, part.count - 1)};
    return kOwnQueries ? meet(own_, mine_, theirs) : meet(own_, theirs, mine_);
  }

  const AttentionTile& own_;
  Span mine_;
  std::int32_t tile_;
  std::int32_t first_ = 0;
};

}  // namespace flywheel::cuda
