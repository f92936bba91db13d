#pragma once

#include <array>
#include <cstdint>

namespace flywheel {

// A permutation of [0, size) in O(1) memory: a Feistel network over the next even power of two,
// walked along its cycles until it lands inside (Black and Rogaway 2002, "Ciphers with arbitrary
// finite domains"). Keyed by (seed, source, epoch) through Philox.
class IndexPermutation {
 public:
  IndexPermutation(std::uint64_t size, std::uint64_t seed, std::uint32_t source,
                   std::uint32_t epoch);
  std::uint64_t operator()(std::uint64_t index) const;  // index < size

 private:
  static constexpr int kRounds = 6;
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t size_;
  int half_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace flywheel
