#pragma once

#include <cstdint>

#include "attention/pattern.h"

namespace flywheel {

// Which key tiles each query tile of one sequence visits.
//
// Tiles hold consecutive positions (full, swa, moba) or ranks (sa). Of moba this is the part that
// needs no choice: each query's own block. Key tiles have virtual numbers: on the circle of ranks
// the walk goes on below 0 and beyond tiles() - 1, so that the keys of a query tile are always one
// interval of virtual tiles, which moves up with the query tile and holds every tile once at most.
class TileWalk {
 public:
  struct Interval {
    std::int64_t first;
    std::int64_t last;  // inclusive
  };

  TileWalk(const AttentionPattern& pattern, std::int64_t n, std::int64_t tile);

  // The pattern, or Full where it sees all that Full sees. Only tiles of Sa hold ranks.
  AttentionKind kind() const { return kind_; }
  std::int64_t tiles() const { return tiles_; }
  std::int64_t rows(std::int64_t tile) const;  // of a tile in [0, tiles())
  Interval keys(std::int64_t query_tile) const;
  // The most virtual tiles that `group` consecutive query tiles visit together.
  std::int64_t widest(std::int64_t group) const;
  std::int64_t key_tile(std::int64_t virtual_tile) const;

  // moba: the first position of the block that holds `position`.
  std::int64_t block_begin(std::int64_t position) const { return position / block_ * block_; }

  // Whether all pairs of the tiles are in the band or the block, so that only causality needs a
  // test.
  bool inside_band(std::int64_t query_tile, std::int64_t virtual_tile) const;

  // sa: a pair is in the band if d = rank(query) + offset() - (rank(key) + rank_shift(virtual
  // tile)) is in [0, slots()); where wrap() is not 0, also if d + wrap() or d - wrap() is.
  std::int32_t offset() const { return static_cast<std::int32_t>(above_); }
  std::int32_t slots() const { return static_cast<std::int32_t>(above_ + below_ + 1); }
  std::int32_t wrap() const { return static_cast<std::int32_t>(circular_ && visits_all_ ? n_ : 0); }
  std::int32_t rank_shift(std::int64_t virtual_tile) const;

 private:
  bool ranks_inside(std::int64_t query_tile, std::int64_t key_tile, std::int64_t shift) const;

  AttentionKind kind_;
  std::int64_t n_;
  std::int64_t tile_;
  std::int64_t tiles_;
  std::int64_t above_ = 0;  // the band holds ranks from below_ below the query's to above_ above it
  std::int64_t below_ = 0;
  std::int64_t block_ = 1;
  bool circular_ = false;
  bool visits_all_ = false;  // sa: the band may reach a tile from both sides; every tile visits all
};

}  // namespace flywheel
