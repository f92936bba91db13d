#include "attention/permutation.h"

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "support/attention_reference.h"
#include "support/catch.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

std::vector<std::int32_t> draw(const PermutationKey& key, std::uint32_t sequence, std::int64_t n) {
  Permuter permuter(n);
  std::vector<std::int32_t> sigma(static_cast<std::size_t>(n));
  permuter.draw(sigma, key, sequence);
  return sigma;
}

// How far a chi-squared statistic lies above its mean, in standard deviations.
double excess(double statistic, double degrees) {
  return (statistic - degrees) / std::sqrt(2 * degrees);
}

// Correlation of the ranks that two permutations give to the same positions.
double correlation(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  const auto n = static_cast<double>(a.size());
  const double mean = (n - 1) / 2;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean) * (b[i] - mean);
  return sum / (n * (n * n - 1) / 12);
}

}  // namespace

TEST_CASE("permutations have the bits that every device must repeat", "[attention]") {
  std::ifstream file(golden("attention_permutations.txt"));
  REQUIRE(file.good());
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    std::istringstream words(line);
    std::uint64_t seed = 0;
    std::uint32_t stream = 0, layer = 0, number = 0, sequence = 0;
    std::int64_t n = 0;
    words >> seed >> stream >> layer >> number >> sequence >> n;
    std::vector<std::int32_t> expected(static_cast<std::size_t>(n));
    for (std::int32_t& rank : expected) words >> rank;
    REQUIRE(!words.fail());
    INFO("line " << count + 1);
    REQUIRE(draw({seed, RandomStream{stream}, layer, number}, sequence, n) == expected);
  }
  REQUIRE(count == 8);
}

TEST_CASE("a permutation is the stable sort of its Philox words", "[attention]") {
  Permuter permuter(5000);
  for (const std::int64_t n : {1, 2, 3, 7, 64, 100, 1023, 1024, 1025, 4097, 5000}) {
    for (std::uint32_t number = 0; number < 5; ++number) {
      const PermutationKey key{0x123456789abcdefULL, RandomStream::kEvaluationPermutation, 3,
                               number};
      std::vector<std::int32_t> sigma(static_cast<std::size_t>(n));
      permuter.draw(sigma, key, 11);
      INFO("n = " << n << ", draw " << number);
      REQUIRE(sigma == reference_permutation(key, 11, n));
    }
  }
}

TEST_CASE("every part of the key changes the permutation", "[attention]") {
  const PermutationKey key{1, RandomStream::kTrainingPermutation, 2, 3};
  const auto sigma = draw(key, 4, 300);
  REQUIRE(sigma == draw(key, 4, 300));
  REQUIRE(sigma != draw(key, 5, 300));
  REQUIRE(sigma != draw({2, key.stream, key.layer, key.draw}, 4, 300));
  REQUIRE(sigma != draw({1, RandomStream::kEvaluationPermutation, key.layer, key.draw}, 4, 300));
  REQUIRE(sigma != draw({1, key.stream, 3, key.draw}, 4, 300));
  REQUIRE(sigma != draw({1, key.stream, 2, 2}, 4, 300));
}

TEST_CASE("all permutations of five are equally likely", "[attention]") {
  constexpr int kDraws = 24000;
  std::map<std::vector<std::int32_t>, int> counts;
  for (std::uint32_t number = 0; number < kDraws; ++number) {
    ++counts[draw({7, RandomStream::kTrainingPermutation, 0, number}, 0, 5)];
  }
  REQUIRE(counts.size() == 120);
  double statistic = 0;
  for (const auto& [sigma, count] : counts) {
    const double expected = kDraws / 120.0;
    statistic += (count - expected) * (count - expected) / expected;
  }
  REQUIRE(std::abs(excess(statistic, 119)) < 5);
}

TEST_CASE("every position takes every rank equally often", "[attention]") {
  constexpr std::size_t n = 48;
  constexpr int kDraws = 4800;
  std::vector<int> counts(n * n);
  for (std::uint32_t number = 0; number < kDraws; ++number) {
    const auto sigma = draw({8, RandomStream::kTrainingPermutation, 3, number}, 0, n);
    for (std::size_t i = 0; i < n; ++i) ++counts[i * n + static_cast<std::size_t>(sigma[i])];
  }
  double statistic = 0;
  for (const int count : counts) statistic += (count - 100.0) * (count - 100.0) / 100.0;
  REQUIRE(std::abs(excess(statistic, (n - 1.0) * (n - 1.0))) < 5);
}

TEST_CASE("layers, steps and sequences draw independently", "[attention]") {
  constexpr std::int64_t n = 2000;
  std::vector<std::vector<std::int32_t>> draws;
  for (std::uint32_t i = 0; i < 8; ++i) {
    draws.push_back(draw({9, RandomStream::kTrainingPermutation, i, 0}, 0, n));
    draws.push_back(draw({9, RandomStream::kTrainingPermutation, 0, i + 1}, 0, n));
    draws.push_back(draw({9, RandomStream::kTrainingPermutation, 0, 0}, i + 1, n));
    draws.push_back(draw({9, RandomStream::kEvaluationPermutation, i, 0}, 0, n));
  }
  double squares = 0;
  int pairs = 0;
  for (std::size_t a = 0; a < draws.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b, ++pairs) {
      const double r = correlation(draws[a], draws[b]) * std::sqrt(static_cast<double>(n - 1));
      REQUIRE(std::abs(r) < 5);
      squares += r * r;
    }
  }
  REQUIRE(std::abs(excess(squares, pairs)) < 5);
}
