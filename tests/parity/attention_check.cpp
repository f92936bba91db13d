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

// moba: takes the exact result where the last choice is so close that rounding may decide it.
// Equal gates of exact inputs are not close: the definition decides.
void forgive_close_choices(const AttentionCase& c, const AttentionTensors<double>& exact,
                           AttentionTensors<float>& x) {
  const double close = 4e-6 * std::sqrt(static_cast<double>(c.head_size));
  std::int64_t forgiven = 0;
  for (std::size_t s = 0; s + 1 < c.cu_seqlens.size(); ++s) {
    const std::int64_t begin = c.cu_seqlens[s];
    for (std::int64_t i = 0; begin + i < c.cu_seqlens[s + 1]; ++i) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        const double margin = choose_blocks(c, exact, begin, i, h).margin;
        if (margin == 0 || margin >= close) continue;
        ++forgiven;
        const auto lse = static_cast<std::size_t>(h * c.tokens() + begin + i);
        const auto row = static_cast<std::size_t>(((begin + i) * c.heads + h) * c.head_size);
        x.lse[lse] = static_cast<float>(exact.lse[lse]);
        for (std::size_t d = row; d < row + static_cast<std::size_t>(c.head_size); ++d) {
          x.out[d] = static_cast<float>(exact.out[d]);
        }
      }
    }
  }
  REQUIRE(forgiven <= 2 + c.tokens() * c.heads / 100);
}

void check_moba(const AttentionCase& c, const AttentionTensors<float>& in,
                AttentionTensors<float> kernel) {
  AttentionTensors<double> exact = to_double(in);
  naive_attention_forward(c, exact);
  AttentionTensors<float> naive = in;
  naive_attention_forward(c, naive);
  forgive_close_choices(c, exact, kernel);
  check_errors("out", kernel.out, naive.out, exact.out);
  check_errors("lse", kernel.lse, naive.lse, exact.lse);
}

}  // namespace

void check_attention(const AttentionCase& c, const AttentionTensors<float>& in,
                     const AttentionTensors<float>& result) {
  if (c.pattern.kind == AttentionKind::Moba) return check_moba(c, in, result);
  AttentionTensors<double> exact = to_double(in);
  naive_attention_forward(c, exact);
  naive_attention_backward(c, exact);
  AttentionTensors<float> naive = in;
  naive_attention_forward(c, naive);
  naive_attention_backward(c, naive);
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
