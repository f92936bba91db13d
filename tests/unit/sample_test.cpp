#include "infer/sample.h"

#include <array>
#include <cmath>
#include <map>

#include "core/error.h"
#include "core/json_fields.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/text.h"

namespace flywheel {
namespace {

constexpr std::array<float, 5> kLogits = {0.5F, 2.0F, -1.0F, 2.0F, 1.0F};

std::map<std::int32_t, int> draw_many(const SampleOptions& options, std::uint64_t draws) {
  std::map<std::int32_t, int> counts;
  for (std::uint64_t i = 0; i < draws; ++i)
    ++counts[sample_token(kLogits, {}, options, {.index = i})];
  return counts;
}

std::vector<std::int32_t> kept(const SampleOptions& options,
                               std::span<const std::int32_t> history = {}) {
  std::vector<std::int32_t> tokens;
  for (const Candidate& c : sample_candidates(kLogits, history, options)) {
    tokens.push_back(c.token);
  }
  return tokens;
}

using Ids = std::vector<std::int32_t>;

TEST_CASE("temperature 0 takes the most likely token, the lowest id among equals") {
  CHECK(draw_many({.temperature = 0}, 20) == std::map<std::int32_t, int>{{1, 20}});
  const Ids seen{1};
  CHECK(kept({.repetition_penalty = 1.5, .temperature = 0}, seen) == Ids{3});
}

TEST_CASE("top-k keeps the k most likely and those equal to the last") {
  CHECK(kept({.top_k = 1}) == Ids{1, 3});
  CHECK(kept({.top_k = 3}) == Ids{1, 3, 4});
  CHECK(kept({.top_k = 9}) == Ids{0, 1, 2, 3, 4});
}

TEST_CASE("top-p keeps the fewest tokens that reach the probability, lowest ids first") {
  // At temperature 1: 0.361, 0.361, 0.133, 0.081, 0.018 (of 1, 3, 4, 0, 2) over their sum 0.953...
  const double total = 2 * std::exp(2) + std::exp(1) + std::exp(0.5) + std::exp(-1);
  const double one = std::exp(2) / total;
  CHECK(kept({.temperature = 1, .top_p = 1e-9}) == Ids{1});
  CHECK(kept({.temperature = 1, .top_p = 0.999 * one}) == Ids{1});
  CHECK(kept({.temperature = 1, .top_p = 1.001 * one}) == Ids{1, 3});
  CHECK(kept({.temperature = 1, .top_p = 2.001 * one}) == Ids{1, 3, 4});
  CHECK(kept({.temperature = 1, .top_p = 0.9999}) == Ids{0, 1, 2, 3, 4});
}

TEST_CASE("min-p compares with the most likely token") {
  CHECK(kept({.temperature = 1, .min_p = std::exp(-1.01)}) == Ids{1, 3, 4});
  CHECK(kept({.temperature = 1, .min_p = std::exp(-0.99)}) == Ids{1, 3});
  CHECK(kept({.temperature = 2, .min_p = std::exp(-0.6)}) == Ids{1, 3, 4});
  CHECK(kept({.min_p = 1}) == Ids{1, 3});
}

TEST_CASE("the penalty divides positive and multiplies negative logits, once a token") {
  const Ids history{1, 2, 1, 2, 99};
  const auto candidates =
      sample_candidates(kLogits, history, {.repetition_penalty = 2, .temperature = 1});
  REQUIRE(candidates.size() == 5);
  CHECK(candidates[1].weight == Approx(std::exp(1.0 - 2.0)));
  CHECK(candidates[2].weight == Approx(std::exp(-2.0 - 2.0)));
  CHECK(candidates[3].weight == 1);
}

TEST_CASE("a wide vocabulary is cut at the right token") {
  std::vector<float> logits;
  for (int i = 0; i < 5000; ++i) logits.push_back(static_cast<float>((i * 7919) % 5000) * 1e-4F);
  const auto candidates = sample_candidates(logits, {}, {.temperature = 1, .top_p = 0.5});
  double total = 0;
  double lowest = 1;
  for (const float x : logits) total += std::exp(static_cast<double>(x) - 0.4999);
  double sum = 0;
  for (const Candidate& c : candidates) {
    sum += c.weight;
    lowest = std::min(lowest, c.weight);
  }
  CHECK(sum >= 0.5 * total);
  CHECK(sum - lowest < 0.5 * total);
}

TEST_CASE("what is kept, and how likely it is, equals transformers' processors") {
  const Json cases = read_json_file("tests/golden/sampling.json");
  REQUIRE(cases.size() == 48);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Json& c = cases[i];
    const Json& o = c["options"];
    const SampleOptions options{.repetition_penalty = o["repetition_penalty"],
                                .temperature = o["temperature"],
                                .top_k = o["top_k"],
                                .top_p = o["top_p"],
                                .min_p = o["min_p"]};
    const auto logits = c["logits"].get<std::vector<float>>();
    const auto candidates = sample_candidates(logits, c["history"].get<Ids>(), options);
    CAPTURE(i);
    double total = 0;
    Ids tokens;
    for (const Candidate& candidate : candidates) {
      tokens.push_back(candidate.token);
      total += candidate.weight;
    }
    REQUIRE(tokens == c["kept"].get<Ids>());
    const auto probabilities = c["probabilities"].get<std::vector<double>>();
    for (std::size_t j = 0; j < candidates.size(); ++j) {
      REQUIRE(candidates[j].weight / total == Approx(probabilities[j]).epsilon(1e-6));
    }
  }
}

TEST_CASE("frequencies follow softmax of logits over temperature") {
  constexpr int kDraws = 40000;
  constexpr double kTemperature = 0.7;
  auto counts = draw_many({.temperature = kTemperature, .seed = 3}, kDraws);
  double total = 0;
  for (const float logit : kLogits) total += std::exp(logit / kTemperature);
  for (std::size_t token = 0; token < kLogits.size(); ++token) {
    const double expected = std::exp(kLogits[token] / kTemperature) / total;
    const double deviation = std::sqrt(expected * (1 - expected) / kDraws);
    INFO("token " << token);
    CHECK(std::abs(counts[static_cast<std::int32_t>(token)] / double(kDraws) - expected) <
          4 * deviation);
  }
}

TEST_CASE("a draw is a pure function of seed, prompt, sample and index") {
  const SampleOptions options{.temperature = 1, .seed = 9};
  CHECK(sample_token(kLogits, {}, options, {3, 2, 7}) ==
        sample_token(kLogits, {}, options, {3, 2, 7}));
  CHECK(draw_many(options, 100) != draw_many({.temperature = 1, .seed = 10}, 100));
  const auto differ = [&](const SampleDraw& other) {
    int count = 0;
    for (std::uint64_t i = 0; i < 50; ++i) {
      count += sample_token(kLogits, {}, options, {0, 0, i}) !=
               sample_token(kLogits, {}, options, {other.prompt, other.sample, i});
    }
    return count;
  };
  CHECK(differ({.prompt = 1}) > 10);
  CHECK(differ({.sample = 1}) > 10);
}

TEST_CASE("options out of range and broken logits are refused") {
  const auto refused = [](const SampleOptions& options, const std::string& what) {
    test::require_contains(test::error_of([&] { check_sample_options(options); }), what);
  };
  refused({.repetition_penalty = 0}, "repetition-penalty must be above 0, not 0");
  refused({.temperature = -1}, "temperature must be 0 (the most likely token) or more, not -1");
  refused({.temperature = std::nan("")}, "temperature must be");
  refused({.top_k = -1}, "top-k must be 0 (all tokens) or more, not -1");
  refused({.top_p = 0}, "top-p must be above 0 and at most 1 (all tokens), not 0");
  refused({.top_p = 1.1}, "top-p must be");
  refused({.min_p = 1.5}, "min-p must be 0 (all tokens) to 1, not 1.5");
  for (const float bad : {std::nanf(""), INFINITY}) {
    const std::array<float, 3> logits{0, bad, 1};
    test::require_contains(test::error_of([&] { sample_candidates(logits, {}, {}); }),
                           "logits are not finite");
  }
}

}  // namespace
}  // namespace flywheel
