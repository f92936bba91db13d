#pragma once

#include <cstdint>

namespace flywheel::cuda {

// Ranks in a tile of the plans that the kernels walk.
constexpr int kAttentionTile = 128;

// A tile of consecutive positions (full, swa) or ranks (sa) of one sequence, and the tiles that it
// meets. Tiles that it meets have virtual numbers, as in attention/tile_walk.h.
struct AttentionTile {
  std::int32_t begin;       // the token at position 0 of the sequence
  std::int32_t even_begin;  // the same with the lengths of sequences rounded up to even numbers
  std::int32_t length;      // of the sequence
  std::int32_t tile;        // number within the sequence
  std::int32_t ranked;      // 1: slots are listed, ordered by position; 0: a slot is its position
  std::int32_t first_keys, last_keys;        // of its queries, inclusive
  std::int32_t first_queries, last_queries;  // of its keys, inclusive
  std::int32_t offset, slots, wrap;          // the band, see in_band()
};

// An AttentionPlan on the device.
struct DevicePlan {
  const AttentionTile* tiles;         // [tiles]
  const std::int32_t* slot_position;  // [T], as in AttentionPlan; null without sa
  const std::int32_t* slot_rank;      // [T]
  std::int64_t tile_count;
  std::int64_t even_tokens;  // sum of the lengths, each rounded up to an even number
};

}  // namespace flywheel::cuda
