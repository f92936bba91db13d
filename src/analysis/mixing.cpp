#include "analysis/mixing.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace flywheel {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& x, const Vector& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}
void add_scaled(Vector& y, double factor, const Vector& x) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += factor * x[i];
}

Vector normal_vector(std::int64_t n, std::uint64_t seed, std::uint32_t number) {
  const RandomSequence random(seed, RandomStream::kSampling, number);
  Vector x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = random.normal(i);
  return x;
}

// y = P^T P x
Vector apply_normal(std::span<const AttentionOperator> layers, Vector x, ThreadPool& pool) {
  Vector y(x.size());
  for (const AttentionOperator& layer : layers) {
    layer.apply(x, y, pool);
    x.swap(y);
  }
  for (std::size_t l = layers.size(); l-- > 0;) {
    layers[l].apply_transposed(x, y, pool);
    x.swap(y);
  }
  return x;
}

// A symmetric tridiagonal matrix; off_diagonal[k] is between rows k and k + 1.
struct Tridiagonal {
  Vector diagonal;
  Vector off_diagonal;

  // By Sturm's sequence.
  std::int64_t eigenvalues_above(double x) const {
    std::int64_t count = 0;
    double pivot = 1;
    for (std::size_t k = 0; k < diagonal.size(); ++k) {
      const double coupling = k == 0 ? 0 : off_diagonal[k - 1];
      pivot = x - diagonal[k] - coupling * coupling / pivot;
      if (pivot == 0) pivot = 1e-300;
      count += pivot < 0;
    }
    return count;
  }

  // The `rank`-th largest, from 1, by bisection; no eigenvalue is negative or above `bound`.
  double eigenvalue(std::int64_t rank, double bound) const {
    double low = 0, high = bound;
    for (int step = 0; step < 200 && high - low > 1e-15 * bound; ++step) {
      const double middle = (low + high) / 2;
      (eigenvalues_above(middle) >= rank ? low : high) = middle;
    }
    return (low + high) / 2;
  }

  double bound() const {  // Gershgorin
    double bound = 0;
    for (std::size_t k = 0; k < diagonal.size(); ++k) {
      const double before = k == 0 ? 0 : off_diagonal[k - 1];
      const double after = k + 1 == diagonal.size() ? 0 : off_diagonal[k];
      bound = std::max(bound, diagonal[k] + std::abs(before) + std::abs(after));
    }
    return bound * (1 + 1e-12);
  }
};

// Twice, since once is not enough in floating point (Kahan).
void orthogonalize(Vector& x, const std::vector<Vector>& basis) {
  for (int pass = 0; pass < 2; ++pass) {
    for (const Vector& v : basis) add_scaled(x, -dot(x, v), v);
  }
}

SingularValues of_matrix(const Tridiagonal& matrix) {
  const double bound = matrix.bound();
  SingularValues values{.first = std::sqrt(matrix.eigenvalue(1, bound))};
  if (matrix.diagonal.size() > 1) values.second = std::sqrt(matrix.eigenvalue(2, bound));
  return values;
}

bool close(const SingularValues& a, const SingularValues& b) {
  constexpr double kTolerance = 1e-7;
  return std::abs(a.first - b.first) <= kTolerance * b.first &&
         std::abs(a.second - b.second) <= kTolerance * std::max(b.second, kSmallestRatio * b.first);
}

}  // namespace

SingularValues singular_values(std::span<const AttentionOperator> layers, ThreadPool& pool) {
  constexpr std::size_t kMostSteps = 300;
  constexpr std::size_t kStepsBetweenLooks = 10;
  constexpr double kBreakdown = 1e-13;
  const std::int64_t n = layers.front().size();
  std::vector<Vector> basis;
  Tridiagonal matrix;
  Vector next = normal_vector(n, 0, 0);
  double length = std::sqrt(dot(next, next));
  SingularValues values;
  while (basis.size() < std::min(kMostSteps, static_cast<std::size_t>(n))) {
    for (double& x : next) x /= length;
    basis.push_back(std::move(next));
    next = apply_normal(layers, basis.back(), pool);
    matrix.diagonal.push_back(dot(next, basis.back()));
    orthogonalize(next, basis);
    length = std::sqrt(dot(next, next));
    if (basis.size() % kStepsBetweenLooks == 0) {
      const SingularValues before = std::exchange(values, of_matrix(matrix));
      if (close(before, values)) return values;
    }
    matrix.off_diagonal.push_back(length);
    if (length > kBreakdown * matrix.bound()) continue;
    // The basis holds all that the start led to: on with another direction.
    matrix.off_diagonal.back() = 0;
    next = normal_vector(n, 0, static_cast<std::uint32_t>(basis.size()));
    orthogonalize(next, basis);
    length = std::sqrt(dot(next, next));
  }
  return of_matrix(matrix);
}

std::vector<SingularValues> mixing(const AttentionStack& stack, const MixingOptions& options,
                                   ThreadPool& pool, const Progress& progress) {
  require(!stack.layers.empty(), ErrorKind::Config, "{}: no layers to look at", stack.name);
  std::vector<AttentionOperator> layers;
  for (LayerBands& bands : draw_bands(stack, options.n, options.seed, options.mask)) {
    layers.emplace_back(std::move(bands));
  }
  std::vector<SingularValues> result;
  for (std::size_t depth = 1; depth <= layers.size(); ++depth) {
    result.push_back(singular_values(std::span(layers).first(depth), pool));
    if (progress) progress(std::ssize(result), std::ssize(layers));
  }
  return result;
}

EstimatorError estimator_error(const AttentionPattern& pattern, std::int64_t n, std::int64_t draws,
                               std::uint64_t seed, ThreadPool& pool) {
  require(n >= 2 && draws >= 2, ErrorKind::Config,
          "{} tokens, {} draws: expected 2 or more of each", n, draws);
  const AttentionStack layer{.name = "sa", .layers = {{.path = pattern}}};
  const Vector values = normal_vector(n, seed, 0);
  Vector estimate(values.size()), mean(values.size()), squares(values.size());
  for (std::int64_t draw = 0; draw < draws; ++draw) {  // Welford's running moments
    auto bands = draw_bands(layer, n, seed + static_cast<std::uint64_t>(draw), Mask::Causal);
    AttentionOperator(std::move(bands.front())).apply(values, estimate, pool);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double change = estimate[i] - mean[i];
      mean[i] += change / static_cast<double>(draw + 1);
      squares[i] += change * (estimate[i] - mean[i]);
    }
  }
  EstimatorError error{.window = pattern.window};
  double bias_square = 0, full_sum = 0;
  const std::size_t begin = values.size() / 2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    full_sum += values[i];
    if (i < begin) continue;
    const double bias = mean[i] - full_sum / static_cast<double>(i + 1);
    const double variance = squares[i] / static_cast<double>(draws - 1);
    bias_square += bias * bias - variance / static_cast<double>(draws);  // the mean's own noise
    error.variance += variance;
  }
  const auto queries = static_cast<double>(values.size() - begin);
  error.bias = std::sqrt(std::max(bias_square / queries, 0.0));
  error.variance /= queries;
  return error;
}

double log_slope(std::span<const double> x, std::span<const double> y) {
  double mean_x = 0, mean_y = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    mean_x += std::log(x[k]) / static_cast<double>(x.size());
    mean_y += std::log(y[k]) / static_cast<double>(x.size());
  }
  double products = 0, squares = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    products += (std::log(x[k]) - mean_x) * (std::log(y[k]) - mean_y);
    squares += (std::log(x[k]) - mean_x) * (std::log(x[k]) - mean_x);
  }
  return products / squares;
}

}  // namespace flywheel
