#include "eval/metrics.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "eval/python_text.h"
#include "eval/statistics.h"

namespace flywheel {
namespace {

bool picks_gold(const Item& item, const DocumentScore& score, bool normalized) {
  std::vector<double> values;
  for (std::size_t i = 0; i < score.requests.size(); ++i) {
    const double log_likelihood = score.requests[i].log_likelihood;
    values.push_back(normalized
                         ? log_likelihood / static_cast<double>(python::length(item.choices[i]))
                         : log_likelihood);
  }
  return std::max_element(values.begin(), values.end()) - values.begin() == item.gold;
}

bool is_weighted(const std::string& metric) {
  return metric == "bits_per_byte" || metric.ends_with("_perplexity");
}

}  // namespace

DocumentMetric document_metric(const std::string& metric, const Item& item,
                               const DocumentScore& score) {
  if (metric == "pass@1") return {score.passed ? 1.0 : 0.0};
  const Score& first = score.requests.at(0);
  if (metric == "perplexity") return {first.log_likelihood};
  if (metric == "word_perplexity") return {first.log_likelihood, item.words};
  if (metric == "byte_perplexity" || metric == "bits_per_byte") {
    return {first.log_likelihood, item.bytes};
  }
  if (metric == "token_perplexity") return {first.log_likelihood, score.tokens};
  require(metric == "acc" || metric == "acc_norm", ErrorKind::Internal, "unknown metric {}",
          metric);
  if (score.requests.size() == 1) return {first.is_greedy ? 1.0 : 0.0};
  return {picks_gold(item, score, metric == "acc_norm") ? 1.0 : 0.0};
}

MetricValue aggregate(const std::string& metric, std::span<const DocumentMetric> documents,
                      std::int64_t bootstrap_iterations) {
  std::vector<double> values;
  double weight = 0;
  double sum = 0;
  for (const DocumentMetric& document : documents) {
    values.push_back(document.value);
    sum += document.value;
    weight += static_cast<double>(document.weight);
  }
  if (metric == "bits_per_byte") return {-sum / weight / std::log(2.0), {}};
  if (is_weighted(metric)) return {std::exp(-sum / weight), {}};
  const bool has_error = values.size() > 1;
  if (metric == "perplexity") {
    MetricValue result{perplexity(values), {}};
    if (has_error && bootstrap_iterations > 0) {
      result.error = perplexity_stderr(values, bootstrap_iterations);
    }
    return result;
  }
  MetricValue result{mean(values), {}};
  if (has_error) result.error = mean_stderr(values);
  return result;
}

}  // namespace flywheel
