#include <algorithm>
#include <cmath>

#include "analysis/coverage_report.h"
#include "analysis/receptive_field.h"
#include "core/philox.h"
#include "support/attention_reference.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

using BoolMatrix = std::vector<std::vector<bool>>;

// docs/attention.md for each path; without the mask, the bands alone.
bool sees(const AttentionPattern& pattern, const std::vector<std::int32_t>& sigma, std::int64_t i,
          std::int64_t j, Mask mask) {
  const auto n = static_cast<std::int64_t>(sigma.size());
  if (mask == Mask::Causal || j <= i) {
    if (visible(pattern, sigma, n, i, j)) return true;
    if (mask == Mask::Causal) return false;
  }
  if (pattern.sees_all(n)) return true;
  if (pattern.kind == AttentionKind::Swa) return std::abs(i - j) < pattern.window;
  std::int64_t place =
      sigma[static_cast<std::size_t>(i)] - sigma[static_cast<std::size_t>(j)] + pattern.offset();
  if (pattern.circular) place = ((place % n) + n) % n;
  return 0 <= place && place < pattern.slots();
}

BoolMatrix adjacency(const LayerAttention& layer, std::int64_t n, const PermutationKey& key,
                     Mask mask) {
  const auto sigma = reference_permutation(key, 0, n);
  BoolMatrix matrix(static_cast<std::size_t>(n), std::vector<bool>(static_cast<std::size_t>(n)));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (const AttentionPattern& path : paths_of(layer)) {
        if (sees(path, sigma, i, j, mask)) {
          matrix[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = true;
        }
      }
    }
  }
  return matrix;
}

BoolMatrix product(const BoolMatrix& a, const BoolMatrix& b) {
  BoolMatrix c(a.size(), std::vector<bool>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (!a[i][k]) continue;
      for (std::size_t j = 0; j < a.size(); ++j) c[i][j] = c[i][j] || b[k][j];
    }
  }
  return c;
}

// |R(i)| after each layer, by Boolean matrix products.
std::vector<std::vector<std::int64_t>> brute_force(const AttentionStack& stack, std::int64_t n,
                                                   std::uint64_t seed, Mask mask) {
  std::vector<std::vector<std::int64_t>> counts;
  BoolMatrix reach;
  for (const LayerAttention& layer : stack.layers) {
    const PermutationKey key{.seed = seed,
                             .stream = RandomStream::kEvaluationPermutation,
                             .layer = static_cast<std::uint32_t>(counts.size())};
    const BoolMatrix matrix = adjacency(layer, n, key, mask);
    reach = counts.empty() ? matrix : product(matrix, reach);
    auto& row = counts.emplace_back();
    for (const auto& keys : reach) row.push_back(std::count(keys.begin(), keys.end(), true));
  }
  return counts;
}

void require_counts(const AttentionStack& stack, std::int64_t n, std::uint64_t seed, Mask mask) {
  const auto expected = brute_force(stack, n, seed, mask);
  const auto bands = draw_bands(stack, n, seed, mask);
  ThreadPool pool(2);
  ReceptiveFields fields(n, mask);
  ReceptiveFieldWalk walk;
  for (std::size_t l = 0; l < bands.size(); ++l) {
    fields.add_layer(bands[l], pool);
    for (std::int64_t i = 0; i < n; ++i) {
      INFO("layer " << l << " query " << i);
      REQUIRE(fields.count(i) == expected[l][static_cast<std::size_t>(i)]);
      REQUIRE(walk.counts(bands, i)[l] == expected[l][static_cast<std::size_t>(i)]);
    }
  }
}

AttentionConfig random_section(const RandomSequence& random, std::int64_t n) {
  AttentionConfig section;
  const auto window = [&](std::uint64_t index) {
    return 1 + static_cast<std::int64_t>(random.below(index, static_cast<std::uint64_t>(n)));
  };
  section.window = window(0);
  section.swa_window = window(1);
  section.band = random.below(2, 2) == 0 ? Band::Centered : Band::Trailing;
  section.budget = random.below(3, 2) == 0 ? Budget::Slots : Budget::Matched;
  section.circular = random.below(4, 2) == 0;
  return section;
}

AttentionConfig section_of(std::int64_t window) {
  AttentionConfig section;
  section.window = window;
  return section;
}

}  // namespace

TEST_CASE("receptive fields are those of Boolean matrix products") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RandomSequence random(seed, RandomStream::kSampling);
    const auto n = static_cast<std::int64_t>(1 + random.below(10, 40));
    const AttentionConfig section = random_section(random, n);
    for (const char* pattern : {"full", "swa", "sa", "sa_swa"}) {
      for (const Mask mask : {Mask::Causal, Mask::None}) {
        INFO("seed " << seed << " n " << n << " window " << section.window << " " << pattern
                     << " mask " << int(mask));
        require_counts(uniform_stack(pattern, section, 3), n, seed, mask);
      }
    }
  }
}

TEST_CASE("layers of different patterns are composed in their order") {
  AttentionStack stack = uniform_stack("swa", section_of(3), 4);
  stack.layers[1] = uniform_stack("full", section_of(3), 1).layers[0];
  stack.layers[3] = uniform_stack("sa_swa", section_of(5), 1).layers[0];
  require_counts(stack, 70, 1, Mask::Causal);  // more than one word of bits
  require_counts(stack, 130, 2, Mask::Causal);
}

TEST_CASE("a sliding window grows by w - 1 a layer, exactly") {
  constexpr std::int64_t kTokens = 300;
  for (const std::int64_t w : {1, 2, 7, 64, 300, 1000}) {
    const auto bands =
        draw_bands(uniform_stack("swa", section_of(w), 12), kTokens, 0, Mask::Causal);
    ThreadPool pool(1);
    ReceptiveFields fields(kTokens, Mask::Causal);
    ReceptiveFieldWalk walk;
    for (std::int64_t l = 1; l <= 12; ++l) {
      fields.add_layer(bands[static_cast<std::size_t>(l - 1)], pool);
      for (std::int64_t i = 0; i < kTokens; ++i) {
        const std::int64_t expected = std::min(i + 1, 1 + l * (w - 1));
        REQUIRE(fields.count(i) == expected);
        if (i % 13 == 0) REQUIRE(walk.counts(bands, i)[std::size_t(l - 1)] == expected);
      }
    }
  }
}

TEST_CASE("a sample of all queries is the exact coverage") {
  ThreadPool pool(2);
  for (const char* pattern : {"swa", "sa", "sa_swa"}) {
    const AttentionStack stack = uniform_stack(pattern, section_of(8), 5);
    const auto exact = coverage(stack, {.n = 200, .seed = 3}, pool);
    const auto sampled = coverage(stack, {.n = 200, .queries = 200, .seed = 3}, pool);
    const auto some = coverage(stack, {.n = 200, .queries = 50, .seed = 3}, pool);
    for (std::size_t l = 0; l < exact.size(); ++l) {
      REQUIRE(sampled[l].mean == Approx(exact[l].mean).epsilon(1e-12));
      REQUIRE(sampled[l].minimum == exact[l].minimum);
      REQUIRE(some[l].last == exact[l].last);
      REQUIRE(some[l].minimum >= exact[l].minimum);
      REQUIRE(std::abs(some[l].mean - exact[l].mean) <= 5 * some[l].error + 1e-12);
    }
  }
}

TEST_CASE("without the mask stochastic attention covers all in about log_w(n) layers") {
  ThreadPool pool(2);
  CoverageResult result{.pattern = "sa"};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    result.runs.push_back(coverage(uniform_stack("sa", section_of(16), 8),
                                   {.n = 1024, .seed = seed, .mask = Mask::None}, pool));
  }
  const MeanDepth depth = mean_depth(result, &CoverageDepth::all);
  REQUIRE(depth.missed == 0);
  REQUIRE(depth.layers >= 3);  // ceil(log_16(1024))
  REQUIRE(depth.layers <= 3 + 2);
}

TEST_CASE("depths and means over seeds") {
  const std::vector<LayerCoverage> quick{{.mean = 0.5, .minimum = 0.1, .last = 0.99},
                                         {.mean = 0.995, .minimum = 1, .last = 1}};
  const std::vector<LayerCoverage> slow{{.mean = 0.1, .minimum = 0.2, .last = 0.1, .error = 0.4},
                                        {.mean = 0.5, .minimum = 0.3, .last = 0.98, .error = 0.4}};
  const CoverageResult result{.pattern = "x", .runs = {quick, slow}};
  REQUIRE(depth_of(quick).last == 1);
  REQUIRE(depth_of(quick).mean == 2);
  REQUIRE(depth_of(slow).all == 0);
  REQUIRE(mean_depth(result, &CoverageDepth::last).text() == ">1.5");
  REQUIRE(mean_depth({"y", 0, {quick}}, &CoverageDepth::all).text() == "2.0");
  const auto mean = over_seeds(result.runs);
  REQUIRE(mean[0].mean == Approx(0.3));
  REQUIRE(mean[0].minimum == 0.1);
  REQUIRE(mean[0].error == Approx(0.2));
  REQUIRE(contains(coverage_csv({result}), "x,2,0.7475,0.3,0.99,0.2\n"));
  REQUIRE(contains(coverage_json({result}, {.n = 4}), "\"depth_last_0.99\": 1"));
}

TEST_CASE("what cannot be covered is refused") {
  ThreadPool pool(1);
  const AttentionStack stack = uniform_stack("sa", section_of(4), 2);
  REQUIRE(contains(error_of([&] { coverage(stack, {.n = 0}, pool); }), "0 tokens"));
  REQUIRE(contains(error_of([&] { coverage(stack, {.n = 4, .queries = 5}, pool); }), "5 queries"));
  REQUIRE(contains(error_of([&] { uniform_stack("sq", section_of(4), 2); }), "unknown pattern"));
  REQUIRE(contains(error_of([&] { uniform_stack("sa", section_of(0), 2); }), "window"));
}
