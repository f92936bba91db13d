#pragma once

#include <array>
#include <cstdint>

namespace flywheel {

// Philox4x32-10, the counter-based generator of Salmon et al. 2011 ("Parallel random numbers: as
// easy as 1, 2, 3"): a pure function of (key, counter), the same on every device.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// What a random number is for. Streams never share counters, so no consumer disturbs another.
enum class RandomStream : std::uint32_t {
  kInitialization = 1,
  kDataOrder = 2,
  kTrainingPermutation = 3,
  kEvaluationPermutation = 4,
  kSampling = 5,
  kCorpus = 6,
  kRounding = 7,
};

// A sequence of random words keyed by (seed, stream, a, b, c): word i is a pure function of all
// six. Streams count below 2^8 and c below 2^24: they share a word of the counter.
class RandomSequence {
 public:
  constexpr RandomSequence(std::uint64_t seed, RandomStream stream, std::uint32_t a = 0,
                           std::uint32_t b = 0, std::uint32_t c = 0)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        stream_(static_cast<std::uint32_t>(stream) | c << 8),
        a_(a),
        b_(b) {}

  // 64 uniform bits. `index` counts below 2^33.
  constexpr std::uint64_t word(std::uint64_t index) const {
    const auto block = philox4x32({static_cast<std::uint32_t>(index >> 1), b_, a_, stream_}, key_);
    const unsigned half = static_cast<unsigned>(index & 1) * 2;
    return std::uint64_t{block[half + 1]} << 32 | block[half];
  }

  // Uniform in [0, 1), 53 bits.
  constexpr double uniform(std::uint64_t index) const {
    return static_cast<double>(word(index) >> 11) * 0x1.0p-53;
  }

  // Standard normal by Box and Muller; uses words 2 * index and 2 * index + 1.
  double normal(std::uint64_t index) const;

  // Uniform below `bound` > 0 (multiply and shift; bias below 2^-64 * bound).
  constexpr std::uint64_t below(std::uint64_t index, std::uint64_t bound) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((Wide{word(index)} * bound) >> 64);
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t stream_;  // and c
  std::uint32_t a_;
  std::uint32_t b_;
};

}  // namespace flywheel
