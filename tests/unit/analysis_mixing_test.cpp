#include <algorithm>
#include <cmath>

#include "analysis/mixing_report.h"
#include "core/philox.h"
#include "support/attention_reference.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

using Matrix = std::vector<std::vector<double>>;

// Uniform attention over the visible keys of docs/attention.md; paths are averaged.
Matrix dense_attention(const LayerAttention& layer, std::int64_t n, const PermutationKey& key) {
  const auto size = static_cast<std::size_t>(n);
  const auto sigma = reference_permutation(key, 0, n);
  const auto paths = paths_of(layer);
  Matrix matrix(size, std::vector<double>(size));
  for (std::size_t i = 0; i < size; ++i) {
    for (const AttentionPattern& path : paths) {
      std::vector<std::size_t> keys;
      for (std::size_t j = 0; j < size; ++j) {
        if (visible(path, sigma, n, std::int64_t(i), std::int64_t(j))) keys.push_back(j);
      }
      for (const std::size_t j : keys) matrix[i][j] += 1.0 / double(keys.size() * paths.size());
    }
  }
  return matrix;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < a.size(); ++k) {
      for (std::size_t j = 0; j < a.size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}

// One-sided Jacobi (Hestenes 1958): rotates pairs of rows until all are orthogonal.
std::vector<double> jacobi_singular_values(Matrix a) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (std::size_t p = 0; p < a.size(); ++p) {
      for (std::size_t q = p + 1; q < a.size(); ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (std::size_t k = 0; k < a.size(); ++k) {
          pp += a[p][k] * a[p][k];
          qq += a[q][k] * a[q][k];
          pq += a[p][k] * a[q][k];
        }
        if (std::abs(pq) <= 1e-15 * std::sqrt(pp * qq)) continue;
        const double zeta = (qq - pp) / (2 * pq);
        const double t = std::copysign(1, zeta) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double c = 1 / std::sqrt(1 + t * t);
        for (std::size_t k = 0; k < a.size(); ++k) {
          const double x = a[p][k], y = a[q][k];
          a[p][k] = c * (x - t * y);
          a[q][k] = c * (t * x + y);
        }
      }
    }
  }
  std::vector<double> values;
  for (const auto& row : a) {
    double square = 0;
    for (const double x : row) square += x * x;
    values.push_back(std::sqrt(square));
  }
  std::sort(values.rbegin(), values.rend());
  return values;
}

AttentionStack stack_of(const std::string& pattern, std::int64_t window, std::int64_t layers) {
  AttentionConfig section;
  section.window = window;
  return uniform_stack(pattern, section, layers);
}

double binomial(std::int64_t n, std::int64_t k) {
  return std::exp(std::lgamma(double(n + 1)) - std::lgamma(double(k + 1)) -
                  std::lgamma(double(n - k + 1)));
}

// Of 1 / (1 + K), K the number of the i earlier tokens among the slots - 1 others of the band.
double mean_own_weight(std::int64_t n, std::int64_t i, std::int64_t slots) {
  double mean = 0;
  for (std::int64_t k = 0; k <= std::min(i, slots - 1); ++k) {
    if (slots - 1 - k > n - 1 - i) continue;
    mean += binomial(i, k) * binomial(n - 1 - i, slots - 1 - k) / binomial(n - 1, slots - 1) /
            double(k + 1);
  }
  return mean;
}

}  // namespace

TEST_CASE("singular values of products are those of the dense matrices") {
  ThreadPool pool(2);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (const char* pattern : {"full", "swa", "sa", "sa_swa"}) {
      const std::int64_t n = 20 + 13 * std::int64_t(seed);
      AttentionConfig section;
      section.window = 3 + 2 * std::int64_t(seed);
      section.circular = seed != 1;
      section.budget = seed == 2 ? Budget::Matched : Budget::Slots;
      const AttentionStack stack = uniform_stack(pattern, section, 4);
      const auto found = mixing(stack, {.n = n, .seed = seed}, pool);
      Matrix matrix;
      for (std::size_t l = 0; l < found.size(); ++l) {
        const PermutationKey key{.seed = seed,
                                 .stream = RandomStream::kEvaluationPermutation,
                                 .layer = std::uint32_t(l)};
        const Matrix layer = dense_attention(stack.layers[l], n, key);
        matrix = l == 0 ? layer : product(layer, matrix);
        const auto expected = jacobi_singular_values(matrix);
        INFO(pattern << " n " << n << " seed " << seed << " layers " << l + 1);
        REQUIRE(found[l].first == Approx(expected[0]).epsilon(1e-9));
        REQUIRE(found[l].second == Approx(expected[1]).epsilon(1e-5));
      }
    }
  }
}

// sa alone without the mask is a circulant: cosine sums, s2 = sin(pi s / n) / (s sin(pi / n)).
TEST_CASE("without the mask operators are doubly stochastic, a circulant has its closed form") {
  ThreadPool pool(1);
  constexpr double kPi = 3.14159265358979323846;
  for (const std::int64_t s : {5, 9, 31}) {
    const auto values =
        mixing(stack_of("sa", s, 1), {.n = 101, .seed = 1, .mask = Mask::None}, pool);
    REQUIRE(values[0].first == Approx(1).epsilon(1e-12));
    REQUIRE(values[0].second ==
            Approx(std::sin(kPi * double(s) / 101) / (double(s) * std::sin(kPi / 101))));
  }
  const auto full = mixing(stack_of("full", 1, 1), {.n = 101, .mask = Mask::None}, pool);
  REQUIRE(full[0].first == Approx(1));
  REQUIRE(full[0].second < kSmallestRatio);
}

TEST_CASE("attention to oneself alone keeps all singular values at 1") {
  ThreadPool pool(1);
  const auto values = mixing(stack_of("sa", 1, 3), {.n = 50}, pool);
  REQUIRE(values[2].first == Approx(1));
  REQUIRE(values[2].second == Approx(1));
}

TEST_CASE("stochastic layers mix faster than sliding windows") {
  ThreadPool pool(2);
  const MixingOptions options{.n = 512, .mask = Mask::None};
  const auto sa = mixing(stack_of("sa", 17, 4), options, pool);
  const auto swa = mixing(stack_of("swa", 9, 4), options, pool);  // 17 keys, too
  REQUIRE(sa[3].second < 0.3);
  REQUIRE(swa[3].second > 0.99);
}

// A query's own value is always among its keys: the bias is (E[1 / (1 + K)] - 1 / (i + 1)) (x_i -
// mean of the earlier ones), whose square has the mean 1 + 1 / i over standard normal values.
TEST_CASE("the bias of sa as an estimator is the weight of a query's own value") {
  ThreadPool pool(2);
  constexpr std::int64_t kTokens = 2000;
  for (const std::int64_t w : {8, 32}) {
    double square = 0;
    for (std::int64_t i = kTokens / 2; i < kTokens; ++i) {
      const double weight = mean_own_weight(kTokens, i, w) - 1 / double(i + 1);
      square += weight * weight * (1 + 1 / double(i)) / (kTokens / 2.0);
    }
    const auto error =
        estimator_error({.kind = AttentionKind::Sa, .window = w}, kTokens, 300, 5, pool);
    REQUIRE(error.bias == Approx(std::sqrt(square)).epsilon(0.1));  // 1000 queries: 2% to 5%
  }
}

TEST_CASE("bias and variance of the estimator fall as 1 / w") {
  ThreadPool pool(2);
  std::vector<double> windows, biases, variances;
  for (const std::int64_t w : {8, 16, 32, 64}) {
    const auto error =
        estimator_error({.kind = AttentionKind::Sa, .window = w}, 2000, 200, 5, pool);
    windows.push_back(double(w));
    biases.push_back(error.bias);
    variances.push_back(error.variance);
  }
  REQUIRE(log_slope(windows, biases) == Approx(-1).margin(0.15));
  REQUIRE(log_slope(windows, variances) == Approx(-1).margin(0.15));
  REQUIRE(log_slope(std::vector{1.0, 10.0, 100.0}, std::vector{5.0, 0.05, 0.0005}) == Approx(-2));
}

TEST_CASE("an estimator that sees all has no error") {
  ThreadPool pool(1);
  const auto error = estimator_error({.kind = AttentionKind::Sa, .window = 64}, 64, 3, 0, pool);
  REQUIRE(error.bias < 1e-12);
  REQUIRE(error.variance < 1e-24);
  REQUIRE(contains(
      error_of([&] { estimator_error({.kind = AttentionKind::Sa, .window = 4}, 64, 1, 0, pool); }),
      "1 draws"));
}

TEST_CASE("mixing is reported as CSV and JSON") {
  const std::vector<MixingResult> results{{"sa", {{1, 0.5}, {1, 0.25}}}};
  REQUIRE(mixing_csv(results) == "pattern,layer,first,second\nsa,1,1,0.5\nsa,2,1,0.25\n");
  const std::string json = mixing_json(results, {{.window = 8, .bias = 0.125}}, {.n = 9});
  REQUIRE(contains(json, "\"bias\": 0.125"));
  REQUIRE(mixing_chart(results, {.n = 9}).series[0].points[1] == std::pair(2.0, 0.25));
}
