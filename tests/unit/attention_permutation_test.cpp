#include "attention/permutation.h"

#include "support/attention_reference.h"
#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

std::vector<std::int32_t> draw(const PermutationKey& key, std::uint32_t sequence, std::int64_t n) {
  Permuter permuter(n);
  std::vector<std::int32_t> sigma(static_cast<std::size_t>(n));
  permuter.draw(sigma, key, sequence);
  return sigma;
}

}  // namespace

TEST_CASE("a permutation is the stable sort of its Philox words", "[attention]") {
  Permuter permuter(5000);
  for (const std::int64_t n : {1, 2, 3, 7, 64, 100, 1023, 1024, 1025, 4097, 5000}) {
    for (std::uint32_t draw_number = 0; draw_number < 5; ++draw_number) {
      const PermutationKey key{0x123456789abcdefULL, RandomStream::kEvaluationPermutation, 3,
                               draw_number};
      std::vector<std::int32_t> sigma(static_cast<std::size_t>(n));
      permuter.draw(sigma, key, 11);
      INFO("n = " << n << ", draw " << draw_number);
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
  REQUIRE(sigma != draw({1, key.stream, key.layer, 2}, 4, 300));
}
