#pragma once

#include <vector>

#include "analysis/attention_operator.h"
#include "analysis/coverage.h"

namespace flywheel {

// The two largest singular values of a product of operators. The first is 1 where the matrix is
// doubly stochastic, as without the causal mask; the second says how much of a difference between
// tokens is left.
struct SingularValues {
  double first = 0;
  double second = 0;
};

// What is below this part of the first singular value is rounding noise.
inline constexpr double kSmallestRatio = 1e-7;

// Of layers.back() * ... * layers.front(), by the Lanczos iteration on P^T P (Golub and Van Loan,
// "Matrix computations", chapter 10), which only multiplies.
SingularValues singular_values(std::span<const AttentionOperator> layers, ThreadPool& pool);

struct MixingOptions {
  std::int64_t n = 0;
  std::uint64_t seed = 0;
  Mask mask = Mask::Causal;
};

// Of the products of the first 1, 2, ... layers.
std::vector<SingularValues> mixing(const AttentionStack& stack, const MixingOptions& options,
                                   ThreadPool& pool, const Progress& progress = {});

// One layer of sa as an estimator of full uniform attention: of the mean over all keys up to a
// query's own, by the mean over those it sees. Values are standard normal, so that the bound on
// their square is B = 1; over the queries of the second half and over draws of the permutation.
struct EstimatorError {
  std::int64_t window = 0;
  double bias = 0;      // root mean square over queries, of the mean over draws
  double variance = 0;  // over draws, mean over queries
};
EstimatorError estimator_error(const AttentionPattern& pattern, std::int64_t n, std::int64_t draws,
                               std::uint64_t seed, ThreadPool& pool);

// The slope of log y against log x, by least squares: -1 where y falls as 1/x.
double log_slope(std::span<const double> x, std::span<const double> y);

}  // namespace flywheel
