#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace flywheel {

// CPython's random.Random(seed), which published few-shot prompts and bootstrap errors are defined
// by: the Mersenne Twister MT19937 (Matsumoto & Nishimura 1998) with its seeding by array.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t seed);

  std::uint32_t word();                    // 32 random bits
  double uniform();                        // random(): [0, 1), 53 bits
  std::int64_t below(std::int64_t bound);  // randrange(bound), 0 < bound < 2^31
  // sample(range(population), count): distinct numbers; count <= population < 2^31.
  std::vector<std::int64_t> sample(std::int64_t population, std::int64_t count);

 private:
  static constexpr std::size_t kWords = 624;
  void seed_words(std::uint32_t seed);
  void refill();
  std::array<std::uint32_t, kWords> state_;
  std::size_t next_ = kWords;
};

}  // namespace flywheel
