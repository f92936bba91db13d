#include "eval/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/thread_pool.h"
#include "eval/python_random.h"

namespace flywheel {

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double sample_deviation(std::span<const double> values) {
  const double centre = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double mean_stderr(std::span<const double> values) {
  return sample_deviation(values) / std::sqrt(static_cast<double>(values.size()));
}

double perplexity(std::span<const double> log_likelihoods) {
  return std::exp(-mean(log_likelihoods));
}

double perplexity_stderr(std::span<const double> log_likelihoods, std::int64_t iterations) {
  constexpr std::int64_t kChunk = 1000;
  const std::int64_t chunk = std::min(kChunk, iterations);
  const std::int64_t chunks = iterations / chunk;
  std::vector<double> replicates(static_cast<std::size_t>(chunks * chunk));
  const auto n = static_cast<double>(log_likelihoods.size());
  ThreadPool pool(0);
  pool.for_each(chunks, [&](std::int64_t index, int) {
    PythonRandom random(static_cast<std::uint32_t>(index));
    for (std::int64_t i = 0; i < chunk; ++i) {
      double sum = 0;
      for (std::size_t draw = 0; draw < log_likelihoods.size(); ++draw) {
        sum += log_likelihoods[static_cast<std::size_t>(random.uniform() * n)];
      }
      replicates[static_cast<std::size_t>(index * chunk + i)] = std::exp(-(sum / n));
    }
  });
  return sample_deviation(replicates);
}

double pooled_stderr(std::span<const double> errors, std::span<const std::int64_t> sizes) {
  double total = 0;
  double squares = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const auto n = static_cast<double>(sizes[i]);
    total += n;
    squares += (n - 1) * errors[i] * errors[i] * n;
  }
  return std::sqrt(squares / (total - static_cast<double>(errors.size())) / total);
}

}  // namespace flywheel
