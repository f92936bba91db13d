#include "eval/python_random.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace flywheel {

void PythonRandom::seed_words(std::uint32_t seed) {
  state_[0] = seed;
  for (std::size_t i = 1; i < kWords; ++i) {
    const std::uint32_t before = state_[i - 1];
    state_[i] = 1812433253U * (before ^ before >> 30) + static_cast<std::uint32_t>(i);
  }
}

// init_by_array([seed]).
PythonRandom::PythonRandom(std::uint32_t seed) : state_{} {
  seed_words(19650218U);
  std::size_t i = 1;
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (std::size_t k = 0; k < kWords; ++k) {
    const std::uint32_t before = state_[i - 1];
    state_[i] = (state_[i] ^ (before ^ before >> 30) * 1664525U) + seed;
    advance();
  }
  for (std::size_t k = 1; k < kWords; ++k) {
    const std::uint32_t before = state_[i - 1];
    state_[i] = (state_[i] ^ (before ^ before >> 30) * 1566083941U) - static_cast<std::uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000U;
}

void PythonRandom::refill() {
  constexpr std::size_t kMiddle = 397;
  const auto twist = [this](std::size_t i, std::size_t next, std::size_t middle) {
    const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[next] & 0x7fffffffU);
    state_[i] = state_[middle] ^ y >> 1 ^ ((y & 1) != 0 ? 0x9908b0dfU : 0U);
  };
  for (std::size_t i = 0; i < kWords - kMiddle; ++i) twist(i, i + 1, i + kMiddle);
  for (std::size_t i = kWords - kMiddle; i + 1 < kWords; ++i) twist(i, i + 1, i + kMiddle - kWords);
  twist(kWords - 1, 0, kMiddle - 1);
  next_ = 0;
}

std::uint32_t PythonRandom::word() {
  if (next_ == kWords) refill();
  std::uint32_t y = state_[next_++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680U;
  y ^= y << 15 & 0xefc60000U;
  return y ^ y >> 18;
}

double PythonRandom::uniform() {
  const std::uint32_t high = word() >> 5;
  const std::uint32_t low = word() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

std::int64_t PythonRandom::below(std::int64_t bound) {
  const int bits = std::bit_width(static_cast<std::uint32_t>(bound));
  std::int64_t drawn = 0;
  do drawn = word() >> (32 - bits);
  while (drawn >= bound);
  return drawn;
}

std::vector<std::int64_t> PythonRandom::sample(std::int64_t population, std::int64_t count) {
  std::int64_t pool_size = 21;  // CPython's estimate of where a pool is smaller than a set
  if (count > 5) {
    std::int64_t power = 1;
    while (power < 3 * count) power *= 4;
    pool_size += power;
  }
  std::vector<std::int64_t> drawn;
  if (population <= pool_size) {
    std::vector<std::int64_t> pool(static_cast<std::size_t>(population));
    std::iota(pool.begin(), pool.end(), 0);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(below(population - i));
      drawn.push_back(pool[at]);
      pool[at] = pool[static_cast<std::size_t>(population - i - 1)];
    }
    return drawn;
  }
  while (static_cast<std::int64_t>(drawn.size()) < count) {
    const std::int64_t candidate = below(population);
    if (std::find(drawn.begin(), drawn.end(), candidate) == drawn.end()) drawn.push_back(candidate);
  }
  return drawn;
}

}  // namespace flywheel
