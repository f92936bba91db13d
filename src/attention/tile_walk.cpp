#include "attention/tile_walk.h"

#include <algorithm>

namespace flywheel {
namespace {

// Tile of a rank that may lie beyond either end of the circle, by one turn at most.
std::int64_t virtual_tile_of(std::int64_t rank, std::int64_t n, std::int64_t tile,
                             std::int64_t tiles) {
  if (rank < 0) return (rank + n) / tile - tiles;
  if (rank >= n) return (rank - n) / tile + tiles;
  return rank / tile;
}

}  // namespace

TileWalk::TileWalk(const AttentionPattern& pattern, std::int64_t n, std::int64_t tile)
    : kind_(pattern.sees_all(n) ? AttentionKind::Full : pattern.kind),
      n_(n),
      tile_(tile),
      tiles_((n + tile - 1) / tile) {
  if (kind_ == AttentionKind::Full) return;
  if (kind_ == AttentionKind::Swa) {
    below_ = pattern.window - 1;
    return;
  }
  if (kind_ == AttentionKind::Moba) {
    block_ = pattern.block;
    return;
  }
  above_ = std::min(pattern.offset(), n - 1);
  below_ = std::min(pattern.slots() - 1 - pattern.offset(), n - 1);
  circular_ = pattern.circular;
  if (circular_ && widest(1) > tiles_) visits_all_ = true;
}

std::int64_t TileWalk::rows(std::int64_t tile) const {
  return std::min(tile_, n_ - tile * tile_);
}

TileWalk::Interval TileWalk::keys(std::int64_t query_tile) const {
  const std::int64_t begin = query_tile * tile_;
  const std::int64_t end = begin + rows(query_tile);
  if (kind_ == AttentionKind::Full) return {0, query_tile};
  if (kind_ == AttentionKind::Swa) {
    return {std::max<std::int64_t>(0, begin - below_) / tile_, query_tile};
  }
  if (kind_ == AttentionKind::Moba) return {block_begin(begin) / tile_, query_tile};
  if (visits_all_) return {0, tiles_ - 1};
  std::int64_t lowest = begin - below_;
  std::int64_t highest = end - 1 + above_;
  if (!circular_) {
    lowest = std::max<std::int64_t>(lowest, 0);
    highest = std::min(highest, n_ - 1);
  }
  return {virtual_tile_of(lowest, n_, tile_, tiles_), virtual_tile_of(highest, n_, tile_, tiles_)};
}

std::int64_t TileWalk::widest(std::int64_t group) const {
  std::int64_t most = 0;
  for (std::int64_t t = 0; t < tiles_; ++t) {
    const std::int64_t last = std::min(t + group, tiles_) - 1;
    most = std::max(most, keys(last).last - keys(t).first + 1);
  }
  return most;
}

std::int64_t TileWalk::key_tile(std::int64_t virtual_tile) const {
  if (virtual_tile < 0) return virtual_tile + tiles_;
  return virtual_tile < tiles_ ? virtual_tile : virtual_tile - tiles_;
}

std::int32_t TileWalk::rank_shift(std::int64_t virtual_tile) const {
  if (virtual_tile < 0) return static_cast<std::int32_t>(-n_);
  return virtual_tile < tiles_ ? 0 : static_cast<std::int32_t>(n_);
}

bool TileWalk::inside_band(std::int64_t query_tile, std::int64_t virtual_tile) const {
  if (kind_ == AttentionKind::Full) return true;
  if (kind_ == AttentionKind::Moba) {
    const std::int64_t last_query = query_tile * tile_ + rows(query_tile) - 1;
    return virtual_tile * tile_ >= block_begin(last_query);
  }
  if (kind_ == AttentionKind::Swa || wrap() == 0) {
    return ranks_inside(query_tile, key_tile(virtual_tile), rank_shift(virtual_tile));
  }
  return ranks_inside(query_tile, virtual_tile, 0) || ranks_inside(query_tile, virtual_tile, n_) ||
         ranks_inside(query_tile, virtual_tile, -n_);
}

bool TileWalk::ranks_inside(std::int64_t query_tile, std::int64_t key_tile,
                            std::int64_t shift) const {
  const std::int64_t first_query = query_tile * tile_;
  const std::int64_t first_key = key_tile * tile_ + shift;
  const std::int64_t last_query = first_query + rows(query_tile) - 1;
  const std::int64_t last_key = first_key + rows(key_tile) - 1;
  const bool above = kind_ == AttentionKind::Swa || last_key - first_query <= above_;
  return above && last_query - first_key <= below_;
}

}  // namespace flywheel
