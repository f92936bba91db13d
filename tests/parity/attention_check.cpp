#include "parity/attention_check.h"

#include <algorithm>
#include <cmath>

#include "support/catch.h"

namespace flywheel::test {
namespace {

double largest(const std::vector<double>& x) {
  double max = 0;
  for (const double value : x) max = std::max(max, std::abs(value));
  return max;
}

double largest_error(const std::vector<float>& x, const std::vector<double>& exact) {
  double max = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(x[i] - exact[i]);
    if (std::isnan(error)) return INFINITY;
    max = std::max(max, error);
  }
  return max;
}

void check_errors(const char* name, const std::vector<float>& kernel,
                  const std::vector<float>& naive, const std::vector<double>& exact,
                  double noise = 0) {
  const double bound = 2 * largest_error(naive, exact) + 0x1p-22 * largest(exact) + noise;
  const double error = largest_error(kernel, exact);
  INFO(name << ": error " << error << " against " << bound << " allowed");
  REQUIRE(error <= bound);
}

}  // namespace

void check_attention(const AttentionCase& c, const AttentionTensors<float>& in,
                     AttentionTensors<float> result) {
  AttentionTensors<double> exact = to_double(in);
  naive_attention_forward(c, exact);
  naive_attention_backward(c, exact);
  AttentionTensors<float> naive = in;
  naive_attention_forward(c, naive);
  naive_attention_backward(c, naive);
  forgive_close_choices(c, exact, result);
  check_errors("out", result.out, naive.out, exact.out);
  check_errors("lse", result.lse, naive.lse, exact.lse);
  // dq and dk are sums of scale * (dout . v - delta) * k. Where the difference cancels, rounding
  // remains: a sum of D standard normal products has a rounding error of about 2^-24 D / 2, of
  // which four deviations are allowed.
  const double rounding = 0x1p-23 * std::sqrt(static_cast<double>(c.head_size));
  check_errors("dq", result.dq, naive.dq, exact.dq, rounding * largest(exact.k));
  check_errors("dk", result.dk, naive.dk, exact.dk, rounding * largest(exact.q));
  check_errors("dv", result.dv, naive.dv, exact.dv);
}

}  // namespace flywheel::test
