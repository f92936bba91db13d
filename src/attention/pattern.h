#pragma once

#include <array>
#include <cstdint>

#include "core/fields.h"

namespace flywheel {

enum class AttentionKind : std::uint8_t { Full, Swa, Sa, Moba };
constexpr auto enum_names(AttentionKind) {
  return std::array{EnumName{"full", AttentionKind::Full}, EnumName{"swa", AttentionKind::Swa},
                    EnumName{"sa", AttentionKind::Sa}, EnumName{"moba", AttentionKind::Moba}};
}

// Which ranks around a query's own are in its band.
enum class Band : std::uint8_t { Centered, Trailing };
constexpr auto enum_names(Band) {
  return std::array{EnumName{"centered", Band::Centered}, EnumName{"trailing", Band::Trailing}};
}

// How many slots a band of window w has: w, or 2w - 1 (as many visible keys on average as swa).
enum class Budget : std::uint8_t { Slots, Matched };
constexpr auto enum_names(Budget) {
  return std::array{EnumName{"slots", Budget::Slots}, EnumName{"matched", Budget::Matched}};
}

// One attention path: which keys a query sees (docs/attention.md). All patterns are causal and a
// query always sees itself.
//   full  j <= i
//   swa   j <= i and i - j < window
//   sa    j <= i and ((sigma(i) - sigma(j) + offset) mod n) < slots, sigma a random permutation
//   moba  j <= i and j is in the query's own block or in one of the top_k - 1 earlier blocks whose
//         mean key fits the query best, chosen by each query head (mixture of block attention, Lu
//         et al. 2025); the choice has no gradient
struct AttentionPattern {
  AttentionKind kind = AttentionKind::Full;
  std::int64_t window = 0;  // keys; unused by full and moba
  Band band = Band::Centered;
  Budget budget = Budget::Slots;
  bool circular = true;       // sa: the ranks form a circle; false clips the band at both ends
  bool per_sequence = false;  // sa: each sequence of the batch has a permutation of its own
  std::int64_t block = 0;     // moba: keys of a block
  std::int64_t top_k = 0;     // moba: blocks that a query sees, its own among them

  bool operator==(const AttentionPattern&) const = default;

  std::int64_t slots() const { return budget == Budget::Slots ? window : 2 * window - 1; }
  std::int64_t offset() const { return band == Band::Centered ? (slots() - 1) / 2 : 0; }

  // Whether every query of a sequence of n tokens sees all that full attention sees.
  bool sees_all(std::int64_t n) const {
    if (kind == AttentionKind::Full) return true;
    if (kind == AttentionKind::Swa) return window >= n;
    if (kind == AttentionKind::Moba) return top_k >= (n + block - 1) / block;
    return circular ? slots() >= n : offset() >= n - 1 && slots() - 1 - offset() >= n - 1;
  }
};

}  // namespace flywheel
