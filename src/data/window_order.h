#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/index_permutation.h"

namespace flywheel {

// Deals a run of numbers out to sources in proportion to their weights, evenly spread: a pure
// function of the number. Level s of a chain of two-way choices splits off source s, so that after
// n numbers it has had round(m * p) of the m that reached it; p is kept to 32 bits.
class SourceMixture {
 public:
  explicit SourceMixture(std::span<const double> weights);  // each above 0

  struct Turn {
    std::size_t source;
    std::uint64_t count;  // of earlier turns of this source
  };
  Turn at(std::uint64_t number) const;
  std::uint64_t count(std::size_t source,
                      std::uint64_t numbers) const;  // its turns among the first `numbers`

 private:
  std::vector<std::uint64_t> shares_;  // of what reaches the level, in units of 2^-32
};

// Which window comes when: source by the mixture, then, within the source, a new permutation every
// epoch.
class WindowOrder {
 public:
  struct Place {
    std::size_t source;
    std::int64_t window;
  };

  // windows: of each source. Without `shuffle`, each source's windows come in order, epoch after
  // epoch.
  WindowOrder(std::vector<std::int64_t> windows, std::span<const double> weights,
              std::uint64_t seed, bool shuffle);
  Place at(std::int64_t number);             // remembers the current epochs' keys, nothing else
  double epochs(std::int64_t number) const;  // of the first source, after `number` windows

 private:
  struct Epoch {
    std::uint64_t number;
    IndexPermutation permutation;
  };
  std::vector<std::int64_t> windows_;
  SourceMixture mixture_;
  std::uint64_t seed_;
  bool shuffle_;
  std::vector<std::optional<Epoch>> epochs_;
};

}  // namespace flywheel
