#pragma once

// How the attention kernels walk over a plan; also for the host, which counts with it.
#include "cuda/device/gpu.h"
#include "cuda/kernels/attention_args.h"

namespace flywheel::cuda {

// Stands for the position of a row beyond the end of a tile: keys there are after every query,
// queries before every key.
constexpr std::int32_t kNoKey = 0x7fffffff;
constexpr std::int32_t kNoQuery = -1;

template <class T>
__device__ __forceinline__ T* row_of(const HeadRows& rows, std::int64_t token, std::int64_t head) {
  return static_cast<T*>(rows.data) + token * rows.token_stride + head * rows.head_stride;
}

// A tile that another one meets: its number, and what to add to its ranks to compare them with the
// other's.
struct MetTile {
  std::int32_t tile;
  std::int32_t shift;
};

__host__ __device__ __forceinline__ std::int32_t tiles_of(const AttentionTile& own) {
  return (own.length + kAttentionTile - 1) / kAttentionTile;
}

__host__ __device__ __forceinline__ MetTile met_tile(const AttentionTile& own,
                                                     std::int32_t virtual_tile) {
  const std::int32_t tiles = tiles_of(own);
  if (virtual_tile < 0) return {virtual_tile + tiles, -own.length};
  if (virtual_tile >= tiles) return {virtual_tile - tiles, own.length};
  return {virtual_tile, 0};
}

__host__ __device__ __forceinline__ std::int32_t rows_of(const AttentionTile& own,
                                                         std::int32_t tile) {
  const std::int32_t rest = own.length - tile * kAttentionTile;
  return rest < kAttentionTile ? rest : kAttentionTile;
}

// `rows` rows of a tile from `first` on, of which `count` are there.
struct Part {
  MetTile tile;
  std::int32_t first;
  std::int32_t count;
};

__host__ __device__ __forceinline__ Part part_of(const AttentionTile& own, MetTile tile,
                                                 std::int32_t first, std::int32_t rows) {
  const std::int32_t rest = rows_of(own, tile.tile) - first;
  return {tile, first, rest < rows ? rest : rows};
}

__host__ __device__ __forceinline__ std::int32_t slot_of(const Part& part, std::int32_t row) {
  return part.tile.tile * kAttentionTile + part.first + row;
}
__host__ __device__ __forceinline__ std::int32_t position_of(const DevicePlan& plan,
                                                             const AttentionTile& own,
                                                             const Part& part, std::int32_t row) {
  const std::int32_t slot = slot_of(part, row);
  return own.ranked ? plan.slot_position[own.begin + slot] : slot;
}
// Comparable with the own tile's ranks.
__host__ __device__ __forceinline__ std::int32_t rank_of(const DevicePlan& plan,
                                                         const AttentionTile& own, const Part& part,
                                                         std::int32_t row) {
  const std::int32_t slot = slot_of(part, row);
  return (own.ranked ? plan.slot_rank[own.begin + slot] : slot) + part.tile.shift;
}

// `distance` is rank(query) - rank(key), ranks shifted as the tiles are.
__host__ __device__ __forceinline__ bool in_band(const AttentionTile& own, std::int32_t distance) {
  const auto inside = [&](std::int32_t d) {
    return static_cast<std::uint32_t>(d) < static_cast<std::uint32_t>(own.slots);
  };
  const std::int32_t d = distance + own.offset;
  if (own.wrap == 0) return inside(d);
  return inside(d) || inside(d + own.wrap) || inside(d - own.wrap);
}

}  // namespace flywheel::cuda
