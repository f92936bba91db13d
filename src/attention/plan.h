#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/pattern.h"
#include "attention/permutation.h"

namespace flywheel {

// What attention kernels walk: packed sequences and, for sa, the rows of each tile of consecutive
// ranks. Made once per (pattern, permutation, lengths), shared by forward and backward.
class AttentionPlan {
 public:
  // Reserves memory, so that prepare() allocates nothing up to these sizes. Config error if the
  // pattern needs a window and has none.
  AttentionPlan(const AttentionPattern& pattern, std::int64_t tile, std::int64_t max_tokens,
                std::int64_t max_sequences);

  // cu_seqlens: [S + 1], ascending from 0; every sequence has a token at least (Shape error).
  // `first_sequence` is the number of sequence 0 within the global batch (for per_sequence). Only
  // sa uses `key`.
  void prepare(std::span<const std::int32_t> cu_seqlens, const PermutationKey& key,
               std::uint32_t first_sequence = 0);

  const AttentionPattern& pattern() const { return pattern_; }
  std::int64_t tile() const { return tile_; }
  std::int64_t sequences() const { return static_cast<std::int64_t>(cu_seqlens_.size()) - 1; }
  std::int64_t tokens() const { return cu_seqlens_.back(); }
  std::span<const std::int32_t> cu_seqlens() const { return cu_seqlens_; }
  std::int64_t length(std::int64_t sequence) const {
    const auto s = static_cast<std::size_t>(sequence);
    return cu_seqlens_[s + 1] - cu_seqlens_[s];
  }

  // sa only, [T] each; the entries of sequence s are at [cu_seqlens[s], cu_seqlens[s + 1]). A
  // sequence's slots run through its tiles (tile t holds ranks [t * tile, min(n, (t + 1) * tile)));
  // inside a tile they are ordered by position.
  std::span<const std::int32_t> slot_position() const { return slot_position_; }  // in the sequence
  std::span<const std::int32_t> slot_rank() const { return slot_rank_; }

 private:
  void fill_slots(std::size_t begin, std::size_t length, const PermutationKey& key,
                  std::uint32_t sequence);

  AttentionPattern pattern_;
  std::int64_t tile_;
  std::int64_t max_tokens_;
  std::int64_t max_sequences_;
  std::vector<std::int32_t> cu_seqlens_{0};
  std::vector<std::int32_t> slot_position_;
  std::vector<std::int32_t> slot_rank_;
  Permuter permuter_;
  std::vector<std::int32_t> sigma_;
  std::vector<std::size_t> next_slot_;  // of each tile
};

}  // namespace flywheel
