#include "data/index_permutation.h"

#include <bit>
#include <utility>

#include "core/philox.h"

namespace flywheel {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): every input bit reaches every output
// bit.
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

}  // namespace

IndexPermutation::IndexPermutation(std::uint64_t size, std::uint64_t seed, std::uint32_t source,
                                   std::uint32_t epoch)
    : size_(size), half_bits_(size < 2 ? 1 : static_cast<int>((std::bit_width(size - 1) + 1) / 2)) {
  const RandomSequence random(seed, RandomStream::kDataOrder, source, epoch);
  for (unsigned round = 0; round < kRounds; ++round) keys_[round] = random.word(round);
}

std::uint64_t IndexPermutation::encrypt(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (const std::uint64_t key : keys_) {
    left ^= mix(right + key) & mask;
    std::swap(left, right);
  }
  return left << half_bits_ | right;
}

std::uint64_t IndexPermutation::operator()(std::uint64_t index) const {
  do {
    index = encrypt(index);
  } while (index >= size_);
  return index;
}

}  // namespace flywheel
