#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/philox.h"

namespace flywheel {

// Names the permutations of one attention path: sigma is a pure function of these and, by pattern,
// of the sequence's length and number.
struct PermutationKey {
  std::uint64_t seed = 0;
  RandomStream stream = RandomStream::kTrainingPermutation;
  std::uint32_t layer = 0;  // below 2^24
  std::uint32_t draw = 0;   // training: the optimizer step; evaluation: a number below `draws`
};

// Draws permutations without allocating.
class Permuter {
 public:
  explicit Permuter(std::int64_t max_length);

  // sigma[i] = the rank of position i: its place in the stable sort of the 64-bit Philox words i =
  // 0..n-1 of (seed, stream, layer, draw, sequence), n = sigma.size() <= max_length
  // (docs/attention.md).
  void draw(std::span<std::int32_t> sigma, const PermutationKey& key, std::uint32_t sequence);

 private:
  struct Entry {
    std::uint64_t word;
    std::int32_t position;
  };
  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> bucket_starts_;
  std::vector<Entry> entries_;
};

}  // namespace flywheel
