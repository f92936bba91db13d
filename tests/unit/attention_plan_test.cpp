#include "attention/plan.h"

#include "attention/counts.h"
#include "core/error.h"
#include "support/attention_reference.h"
#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

std::int64_t count_by_brute_force(const AttentionCase& c) {
  std::int64_t pairs = 0;
  for (std::size_t s = 0; s + 1 < c.cu_seqlens.size(); ++s) {
    const std::int64_t n = c.cu_seqlens[s + 1] - c.cu_seqlens[s];
    const auto number = c.first_sequence + static_cast<std::uint32_t>(s);
    const auto sigma = reference_permutation(c.key, c.pattern.per_sequence ? number : 0, n);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) pairs += visible(c.pattern, sigma, n, i, j);
    }
  }
  return pairs;
}

}  // namespace

TEST_CASE("a plan counts the visible pairs of the brute-force mask", "[attention]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const AttentionCase c = random_attention_case(seed, 2e6);
    INFO("case " << seed << ": " << c.describe());
    AttentionPlan plan(c.pattern, 64, c.tokens(), std::ssize(c.cu_seqlens) - 1);
    plan.prepare(c.cu_seqlens, c.key, c.first_sequence);
    REQUIRE(visible_pairs(plan) == count_by_brute_force(c));
  }
}
