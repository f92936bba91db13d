#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/attention_stack.h"
#include "attention/permutation.h"

namespace flywheel {

enum class Mask : std::uint8_t {
  Causal,  // docs/attention.md
  None,    // the bands alone, the setting of most theory: sa as it is, swa on both sides
};

// Ranks first..last - 1.
struct RankRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// One attention path over the n tokens of a sequence. Every pattern is a band of ranks around a
// query's own: those of sa are random, those of swa and full are the positions.
class AttentionBand {
 public:
  AttentionBand(const AttentionPattern& pattern, std::int64_t n, const PermutationKey& key,
                Mask mask);

  std::int64_t size() const { return n_; }
  bool causal() const { return causal_; }
  bool ranks_are_positions() const { return ranks_are_positions_; }
  std::span<const std::int32_t> rank() const { return rank_; }          // of each position
  std::span<const std::int32_t> position() const { return position_; }  // of each rank

  // The band of the query of rank r, one of the two possibly empty; the mask comes on top.
  std::array<RankRange, 2> keys_of(std::int64_t r) const {
    return wrapped(r + offset_ - slots_ + 1);
  }
  // The queries in whose bands the key of rank r is.
  std::array<RankRange, 2> queries_of(std::int64_t r) const { return wrapped(r - offset_); }

  // Calls visit(j) for every key that query i sees, i among them.
  template <class Visit>
  void visit_keys(std::int64_t i, const Visit& visit) const {
    for (const RankRange range : keys_of(rank_[static_cast<std::size_t>(i)])) {
      for (std::int64_t r = range.first; r < range.last; ++r) {
        const std::int64_t j = position_[static_cast<std::size_t>(r)];
        if (!causal_ || j <= i) visit(j);
      }
    }
  }

  // Adds to `image` what the queries of `set` see; both [n], 0 or 1. O(n), whatever the window: a
  // key is seen if the last member of the set whose band it is in comes at or after it, a maximum
  // over a sliding window of ranks.
  void add_image(std::span<const std::uint8_t> set, std::span<std::uint8_t> image,
                 std::vector<std::int32_t>& scratch) const;

 private:
  std::array<RankRange, 2> wrapped(std::int64_t first) const {
    const std::int64_t last = first + slots_;
    if (!circular_) return {RankRange{std::max<std::int64_t>(first, 0), std::min(last, n_)}, {}};
    if (first < 0) return {RankRange{first + n_, n_}, RankRange{0, last}};
    return {RankRange{first, std::min(last, n_)},
            RankRange{0, std::max<std::int64_t>(last - n_, 0)}};
  }

  std::int64_t n_;
  std::int64_t slots_;
  std::int64_t offset_;
  bool circular_;
  bool causal_;
  bool ranks_are_positions_;
  std::vector<std::int32_t> rank_;
  std::vector<std::int32_t> position_;
};

// A layer is the union of its bands.
using LayerBands = std::vector<AttentionBand>;

// The bands of all layers over n tokens, with the permutations of an evaluation's draw 0.
std::vector<LayerBands> draw_bands(const AttentionStack& stack, std::int64_t n, std::uint64_t seed,
                                   Mask mask);

}  // namespace flywheel
