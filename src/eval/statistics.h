#pragma once

#include <cstdint>
#include <span>

namespace flywheel {

double mean(std::span<const double> values);
double sample_deviation(std::span<const double> values);  // with n - 1; n >= 2
double mean_stderr(std::span<const double> values);       // sample deviation / sqrt(n); n >= 2

// exp(-mean) of log-likelihoods, and its standard error by `iterations` bootstrap replicates (Efron
// 1979), drawn as lm-evaluation-harness draws them: 1000 from each of Random(0), Random(1), ...
double perplexity(std::span<const double> log_likelihoods);
double perplexity_stderr(std::span<const double> log_likelihoods, std::int64_t iterations);

// The error of a mean over parts of `sizes[i]` values whose own errors are `errors[i]`: their
// pooled variance.
double pooled_stderr(std::span<const double> errors, std::span<const std::int64_t> sizes);

}  // namespace flywheel
