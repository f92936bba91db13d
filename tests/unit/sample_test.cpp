#include "infer/sample.h"

#include <array>
#include <cmath>
#include <map>

#include "support/catch.h"

namespace flywheel {
namespace {

constexpr std::array<float, 5> kLogits = {0.5F, 2.0F, -1.0F, 2.0F, 1.0F};

std::map<std::int32_t, int> draw_many(const SampleOptions& options, int draws) {
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sample_token(kLogits, options, i)];
  return counts;
}

TEST_CASE("temperature 0 takes the most likely token, the lowest id among equals") {
  CHECK(draw_many({.temperature = 0}, 20) == std::map<std::int32_t, int>{{1, 20}});
}

TEST_CASE("top-k never leaves the k most likely tokens") {
  const auto counts = draw_many({.temperature = 5, .top_k = 3}, 500);
  CHECK(counts.size() == 3);
  CHECK(counts.count(0) + counts.count(2) == 0);
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

TEST_CASE("a draw is a pure function of seed and index") {
  const SampleOptions options{.temperature = 1, .seed = 9};
  CHECK(sample_token(kLogits, options, 7) == sample_token(kLogits, options, 7));
  CHECK(draw_many(options, 100) != draw_many({.temperature = 1, .seed = 10}, 100));
}

}  // namespace
}  // namespace flywheel
