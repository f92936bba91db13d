#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/attention_band.h"
#include "core/thread_pool.h"

namespace flywheel {

// After some layers, query i has the receptive field R(i): what it reaches by composing the layers'
// visible keys, the last layer first. Covered is the fraction |R(i)| / (i + 1); without the mask
// |R(i)| / n.
struct LayerCoverage {
  double mean = 0;     // over queries
  double minimum = 1;  // over queries
  double last = 0;     // of the last query
  double error = 0;  // standard error of `mean` by the choice of queries; 0 where all were counted
};

struct CoverageOptions {
  std::int64_t n = 0;
  std::int64_t queries = 0;  // how many to sample; 0: all
  std::uint64_t seed = 0;
  Mask mask = Mask::Causal;
};

// Called as parts of the work are done.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

// The coverage after each layer. All queries: rows of bits, n^2 / 4 bytes. Sampled: walks back from
// queries that are spread evenly with a random place in each stratum, and from the last one, O(n)
// memory; the minimum is then one over the sample. Error Config for no tokens or layers.
std::vector<LayerCoverage> coverage(const AttentionStack& stack, const CoverageOptions& options,
                                    ThreadPool& pool, const Progress& progress = {});

// Over seeds: means of means and of last, the minimum of minima, the error of the mean of means.
std::vector<LayerCoverage> over_seeds(const std::vector<std::vector<LayerCoverage>>& runs);

// The first layer, from 1, after which `value` is at least `wanted`; 0 if there is none.
std::int64_t depth_reaching(const std::vector<LayerCoverage>& layers, double LayerCoverage::*value,
                            double wanted);

}  // namespace flywheel
