#include "analysis/coverage.h"

#include <cmath>

#include "analysis/receptive_field.h"
#include "core/error.h"
#include "core/philox.h"

namespace flywheel {
namespace {

double whole(std::int64_t n, std::int64_t i, Mask mask) {
  return static_cast<double>(mask == Mask::Causal ? i + 1 : n);
}

std::vector<LayerCoverage> count_all(const std::vector<LayerBands>& layers, std::int64_t n,
                                     Mask mask, ThreadPool& pool, const Progress& progress) {
  ReceptiveFields fields(n, mask);
  std::vector<LayerCoverage> result;
  for (const LayerBands& layer : layers) {
    fields.add_layer(layer, pool);
    LayerCoverage& coverage = result.emplace_back();
    for (std::int64_t i = 0; i < n; ++i) {
      coverage.last = static_cast<double>(fields.count(i)) / whole(n, i, mask);
      coverage.mean += coverage.last / static_cast<double>(n);
      coverage.minimum = std::min(coverage.minimum, coverage.last);
    }
    if (progress) progress(std::ssize(result), std::ssize(layers));
  }
  return result;
}

// One query at a random place in each of `count` equal parts of the positions, and the last one.
std::vector<std::int64_t> spread_queries(std::int64_t n, std::int64_t count, std::uint64_t seed) {
  const RandomSequence random(seed, RandomStream::kSampling);
  std::vector<std::int64_t> queries;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t begin = k * n / count;
    const auto part = static_cast<std::uint64_t>((k + 1) * n / count - begin);
    queries.push_back(begin +
                      static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(k), part)));
  }
  queries.push_back(n - 1);
  return queries;
}

LayerCoverage summarize(const std::vector<double>& covered) {
  LayerCoverage result{.minimum = covered.back(), .last = covered.back()};
  const std::size_t count = covered.size() - 1;  // the last query is not part of the sample
  double squares = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const double change = covered[k] - result.mean;
    result.mean += change / static_cast<double>(k + 1);
    squares += change * (covered[k] - result.mean);
    result.minimum = std::min(result.minimum, covered[k]);
  }
  if (count > 1) result.error = std::sqrt(squares / static_cast<double>((count - 1) * count));
  return result;
}

std::vector<LayerCoverage> sample(const std::vector<LayerBands>& layers,
                                  const CoverageOptions& options, ThreadPool& pool,
                                  const Progress& progress) {
  const auto queries = spread_queries(options.n, options.queries, options.seed);
  std::vector<std::vector<double>> covered(layers.size(), std::vector<double>(queries.size()));
  std::vector<ReceptiveFieldWalk> walks(static_cast<std::size_t>(pool.size()));
  std::int64_t done = 0;
  while (done < std::ssize(queries)) {
    const std::int64_t batch = std::min<std::int64_t>(pool.size(), std::ssize(queries) - done);
    pool.for_each(batch, [&](std::int64_t k, int thread) {
      const auto q = static_cast<std::size_t>(done + k);
      const auto counts = walks[static_cast<std::size_t>(thread)].counts(layers, queries[q]);
      for (std::size_t l = 0; l < layers.size(); ++l) {
        covered[l][q] = static_cast<double>(counts[l]) / whole(options.n, queries[q], options.mask);
      }
    });
    done += batch;
    if (progress) progress(done, std::ssize(queries));
  }
  std::vector<LayerCoverage> result;
  for (const auto& layer : covered) result.push_back(summarize(layer));
  return result;
}

}  // namespace

std::vector<LayerCoverage> coverage(const AttentionStack& stack, const CoverageOptions& options,
                                    ThreadPool& pool, const Progress& progress) {
  require(!stack.layers.empty(), ErrorKind::Config, "{}: no layers to look at", stack.name);
  require(options.queries >= 0 && options.queries <= options.n, ErrorKind::Config,
          "{} queries: expected 1 to the {} tokens, or 0 for all", options.queries, options.n);
  const auto layers = draw_bands(stack, options.n, options.seed, options.mask);
  if (options.queries == 0) return count_all(layers, options.n, options.mask, pool, progress);
  return sample(layers, options, pool, progress);
}

std::vector<LayerCoverage> over_seeds(const std::vector<std::vector<LayerCoverage>>& runs) {
  std::vector<LayerCoverage> result(runs.empty() ? 0 : runs[0].size());
  const auto count = static_cast<double>(runs.size());
  for (std::size_t l = 0; l < result.size(); ++l) {
    double squares = 0;
    for (const auto& run : runs) {
      result[l].mean += run[l].mean / count;
      result[l].last += run[l].last / count;
      result[l].minimum = std::min(result[l].minimum, run[l].minimum);
      squares += run[l].error * run[l].error;
    }
    result[l].error = std::sqrt(squares) / count;
  }
  return result;
}

std::int64_t depth_reaching(const std::vector<LayerCoverage>& layers, double LayerCoverage::*value,
                            double wanted) {
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (layers[l].*value >= wanted) return static_cast<std::int64_t>(l) + 1;
  }
  return 0;
}

}  // namespace flywheel
