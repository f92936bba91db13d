#include "infer/sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/philox.h"
#include "model/sequence_packer.h"

namespace flywheel {
namespace {

void check(const SampleOptions& options) {
  require(options.temperature >= 0, ErrorKind::Config, "temperature must be 0 or more, not {}",
          options.temperature);
  require(options.top_k >= 0, ErrorKind::Config, "top-k must be 0 or more, not {}", options.top_k);
}

}  // namespace

std::int32_t sample_token(std::span<const float> logits, const SampleOptions& options,
                          std::int64_t index) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto more_likely = [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (options.temperature == 0) return *std::min_element(order.begin(), order.end(), more_likely);

  if (options.top_k > 0 && options.top_k < static_cast<std::int64_t>(order.size())) {
    std::partial_sort(order.begin(), order.begin() + options.top_k, order.end(), more_likely);
    order.resize(options.top_k);
  }
  const float highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> cumulative(order.size());
  double total = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    total += std::exp((logits[order[i]] - highest) / options.temperature);
    cumulative[i] = total;
  }
  const RandomSequence draws(options.seed, RandomStream::kSampling);
  const double point = draws.uniform(static_cast<std::uint64_t>(index)) * total;
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), point);
  return order[std::min<std::size_t>(chosen - cumulative.begin(), order.size() - 1)];
}

std::vector<std::int32_t> generate(Transformer& model, std::span<const std::int32_t> prompt,
                                   const SampleOptions& options, std::int32_t stop,
                                   std::int64_t max_tokens,
                                   const std::function<void(std::int32_t)>& on_token) {
  check(options);
  require(!prompt.empty(), ErrorKind::Config, "the prompt is empty: give at least one token");
  require(static_cast<std::int64_t>(prompt.size()) <= max_tokens, ErrorKind::Config,
          "the prompt has {} tokens, more than the {} that fit", prompt.size(), max_tokens);
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  const std::vector<std::int32_t> no_targets(max_tokens, -1);
  std::vector<float> logits(model.config().vocab_size);
  const PermutationDraw draw{.seed = options.seed, .stream = RandomStream::kEvaluationPermutation};

  SequencePacker packer;
  for (std::int64_t index = 0; index < options.tokens; ++index) {
    const auto length = static_cast<std::int64_t>(tokens.size());
    if (length > max_tokens) break;
    packer.clear();
    packer.add(tokens, std::span(no_targets).first(tokens.size()));
    const std::int64_t last_row[] = {length - 1};
    model.logits(packer.view(), draw, last_row, logits);
    const std::int32_t token = sample_token(logits, options, index);
    if (token == stop) break;
    tokens.push_back(token);
    on_token(token);
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

}  // namespace flywheel
