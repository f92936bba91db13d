#include "infer/sample.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/philox.h"

namespace flywheel {
namespace {

// Weights are scores until weigh().
using Candidates = std::vector<Candidate>;

bool more_likely(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

void penalise(std::span<float> logits, std::span<const std::int32_t> history, double penalty) {
  std::vector<std::int32_t> seen(history.begin(), history.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const std::int32_t token : seen) {
    if (token < 0 || token >= std::ssize(logits)) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    const double value = logit;
    logit = static_cast<float>(value < 0 ? value * penalty : value / penalty);
  }
}

void keep_top_k(Candidates& candidates, std::int64_t k) {
  if (k == 0 || k >= std::ssize(candidates)) return;
  Candidates order = candidates;
  const auto last = order.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(order.begin(), last, order.end(), more_likely);
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < last->weight; });
}

// e to the difference from the highest score.
void weigh(Candidates& candidates, double highest) {
  for (Candidate& c : candidates) c.weight = std::exp(c.weight - highest);
}

void keep_top_p(Candidates& candidates, double p) {
  if (p >= 1) return;
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  std::size_t kept = 0;
  std::size_t sorted = 0;  // most need few
  for (double before = 0; kept < candidates.size() && (kept == 0 || before < p * total); ++kept) {
    if (kept == sorted) {
      sorted = std::min(candidates.size(), std::max<std::size_t>(64, 4 * sorted));
      const auto begin = candidates.begin();
      std::partial_sort(begin + static_cast<std::ptrdiff_t>(kept),
                        begin + static_cast<std::ptrdiff_t>(sorted), candidates.end(), more_likely);
    }
    before += candidates[kept].weight;
  }
  candidates.resize(kept);
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

}  // namespace

void check_sample_options(const SampleOptions& options) {
  const auto check = [](bool right, const char* name, const char* range, double value) {
    require(right, ErrorKind::Config, "{} must be {}, not {}", name, range, value);
  };
  check(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
        "repetition-penalty", "above 0", options.repetition_penalty);
  check(options.temperature >= 0 && std::isfinite(options.temperature), "temperature",
        "0 (the most likely token) or more", options.temperature);
  check(options.top_k >= 0, "top-k", "0 (all tokens) or more", static_cast<double>(options.top_k));
  check(options.top_p > 0 && options.top_p <= 1, "top-p", "above 0 and at most 1 (all tokens)",
        options.top_p);
  check(options.min_p >= 0 && options.min_p <= 1, "min-p", "0 (all tokens) to 1", options.min_p);
}

std::vector<Candidate> sample_candidates(std::span<const float> logits,
                                         std::span<const std::int32_t> history,
                                         const SampleOptions& options) {
  std::vector<float> scores(logits.begin(), logits.end());
  const bool no_nan =
      std::none_of(scores.begin(), scores.end(), [](float x) { return std::isnan(x); });
  const double highest_logit =
      scores.empty() ? -INFINITY : *std::max_element(scores.begin(), scores.end());
  require(no_nan && std::isfinite(highest_logit), ErrorKind::Data,
          "the model's logits are not finite: its weights are damaged or training diverged");
  if (options.repetition_penalty != 1) penalise(scores, history, options.repetition_penalty);
  const auto best = std::max_element(scores.begin(), scores.end());
  if (options.temperature == 0) {
    return {{static_cast<std::int32_t>(best - scores.begin()), 1}};
  }
  Candidates candidates;
  candidates.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    candidates.push_back(
        {static_cast<std::int32_t>(i), static_cast<double>(scores[i]) / options.temperature});
  }
  const double highest = static_cast<double>(*best) / options.temperature;
  keep_top_k(candidates, options.top_k);
  weigh(candidates, highest);
  keep_top_p(candidates, options.top_p);
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < options.min_p; });
  return candidates;
}

std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> history,
                          const SampleOptions& options, const SampleDraw& draw) {
  const std::vector<Candidate> candidates = sample_candidates(logits, history, options);
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  const RandomSequence draws(options.seed, RandomStream::kSampling, draw.prompt, draw.sample);
  double rest = draws.uniform(draw.index) * total;
  for (const Candidate& c : candidates) {
    rest -= c.weight;
    if (rest < 0) return c.token;
  }
  const auto last = std::find_if(candidates.rbegin(), candidates.rend(),
                                 [](const Candidate& c) { return c.weight > 0; });
  return last->token;  // the sum's rounding
}

}  // namespace flywheel
