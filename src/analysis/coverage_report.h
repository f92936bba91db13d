#pragma once

#include <string>
#include <vector>

#include "analysis/coverage.h"
#include "plot/chart.h"

namespace flywheel {

// The layers, from 1, after which so much is covered; 0: never within the stack.
struct CoverageDepth {
  std::int64_t mean = 0;  // the mean over queries reaches 0.99
  std::int64_t last = 0;  // the last query reaches 0.99
  std::int64_t all = 0;   // every query reaches all
};

struct CoverageResult {
  std::string pattern;
  double mean_visible_keys = 0;                  // of a query, over layers: expectation
  std::vector<std::vector<LayerCoverage>> runs;  // of each seed, by layer
};

CoverageDepth depth_of(const std::vector<LayerCoverage>& layers);

// The mean over the seeds of a depth, and how many seeds did not reach it. Those count as the whole
// stack, so that the mean is then a lower bound.
struct MeanDepth {
  double layers = 0;
  std::int64_t missed = 0;
  std::string text() const;  // "4.2"; ">20.3" where some missed
};
MeanDepth mean_depth(const CoverageResult& result, std::int64_t CoverageDepth::*depth);

// Expected number of visible keys of a query, mean over layers; the paths of a gated layer add up.
double mean_visible_keys(const AttentionStack& stack, std::int64_t n);

// pattern,layer,mean,minimum,last,error: one line a layer, over seeds.
std::string coverage_csv(const std::vector<CoverageResult>& results);
// All of it, the seeds apart, with the options.
std::string coverage_json(const std::vector<CoverageResult>& results,
                          const CoverageOptions& options);
Chart coverage_chart(const std::vector<CoverageResult>& results, const CoverageOptions& options);

}  // namespace flywheel
