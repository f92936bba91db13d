#include "data/window_order.h"

#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "data/index_permutation.h"
#include "support/catch.h"

using namespace flywheel;

TEST_CASE("an index permutation hits every index once", "[data]") {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4096, 70001}) {
    for (const std::uint32_t epoch : {0U, 1U}) {
      const IndexPermutation permutation(size, 3, 0, epoch);
      std::vector<bool> hit(size, false);
      for (std::uint64_t i = 0; i < size; ++i) {
        const std::uint64_t image = permutation(i);
        REQUIRE(image < size);
        REQUIRE_FALSE(hit[image]);
        hit[image] = true;
      }
    }
  }
}

TEST_CASE("an index permutation of 2^40 and more indices stays inside and differs by key",
          "[data]") {
  const std::uint64_t size = (std::uint64_t{1} << 40) + 12345;
  std::set<std::uint64_t> images;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t image = IndexPermutation(size, 3, 0, 0)(i);
    REQUIRE(image < size);
    images.insert(image);
    REQUIRE(image != IndexPermutation(size, 4, 0, 0)(i));
    REQUIRE(image != IndexPermutation(size, 3, 1, 0)(i));
    REQUIRE(image != IndexPermutation(size, 3, 0, 1)(i));
  }
  REQUIRE(images.size() == 1000);
}

// Over many keys every index must land everywhere alike (chi-squared within 6 standard deviations),
// and neighbours must not stay together.
TEST_CASE("index permutations are even", "[data]") {
  constexpr std::uint64_t kSize = 100;
  constexpr int kKeys = 4000;
  for (const std::uint64_t index : {0, 1, 50, 99}) {
    std::vector<double> counts(kSize, 0);
    int neighbours = 0;
    for (std::uint64_t seed = 0; seed < kKeys; ++seed) {
      const IndexPermutation permutation(kSize, seed, 0, 0);
      counts[permutation(index)] += 1;
      neighbours += permutation((index + 1) % kSize) == permutation(index) + 1;
    }
    const double expected = static_cast<double>(kKeys) / kSize;
    double chi = 0;
    for (const double count : counts) chi += (count - expected) * (count - expected) / expected;
    INFO("index " << index << " chi " << chi);
    REQUIRE(std::abs(chi - 99) < 6 * std::sqrt(2 * 99.0));
    REQUIRE(std::abs(neighbours - 40) < 40);
  }
}

TEST_CASE("a mixture keeps its proportions at every moment and deals every turn once", "[data]") {
  const std::vector<std::vector<double>> cases = {
      {1}, {1, 1}, {0.7, 0.3}, {5, 3, 2}, {1, 1e-3, 10, 4, 0.5}, {0.125, 0.125, 0.75}};
  for (const auto& weights : cases) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const SourceMixture mixture(weights);
    std::vector<std::uint64_t> seen(weights.size(), 0);
    for (std::uint64_t number = 0; number < 20000; ++number) {
      const auto turn = mixture.at(number);
      REQUIRE(turn.count == seen.at(turn.source)++);
      for (std::size_t s = 0; s < weights.size(); ++s) {
        REQUIRE(mixture.count(s, number + 1) == seen[s]);
        const double share = static_cast<double>(number + 1) * weights[s] / total;
        REQUIRE(std::abs(static_cast<double>(seen[s]) - share) < 2);
      }
    }
  }
}

TEST_CASE("a mixture is exact far out", "[data]") {
  const SourceMixture mixture(std::vector<double>{3, 1});
  const std::uint64_t far = std::uint64_t{1} << 60;
  REQUIRE(mixture.count(0, far) == far / 4 * 3);
  REQUIRE(mixture.count(1, far) == far / 4);
}

TEST_CASE("sources of a window order have their own epochs", "[data]") {
  WindowOrder order({4, 10}, std::vector<double>{1, 1}, 9, true);
  std::vector<int> small(4, 0);
  std::vector<int> large(10, 0);
  for (std::int64_t number = 0; number < 40; ++number) {
    const auto place = order.at(number);
    ++(place.source == 0 ? small : large).at(static_cast<std::size_t>(place.window));
  }
  REQUIRE(small == std::vector<int>(4, 5));
  REQUIRE(large == std::vector<int>(10, 2));
  REQUIRE(order.epochs(40) == 5.0);
}
