// The reference itself: its gradient against central differences.
#include "support/attention_reference.h"

#include <cmath>
#include <complex>

#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

// q and k turned by RoPE: pairs (m, m + D/2) as complex numbers.
AttentionTensors<double> turned(const AttentionCase& c, AttentionTensors<double> x) {
  const std::int64_t half = c.head_size / 2;
  for (std::vector<double>* heads : {&x.q, &x.k}) {
    const std::int64_t row = std::ssize(*heads) / c.tokens();
    for (std::int64_t i = 0; i < std::ssize(*heads); ++i) {
      const std::int64_t m = i % c.head_size;
      if (m >= half) continue;
      const auto angle =
          static_cast<std::size_t>(x.positions[static_cast<std::size_t>(i / row)] * half + m);
      double& low = (*heads)[static_cast<std::size_t>(i)];
      double& high = (*heads)[static_cast<std::size_t>(i + half)];
      const std::complex<double> z =
          std::complex(low, high) * std::complex(x.cos[angle], x.sin[angle]);
      low = z.real();
      high = z.imag();
    }
  }
  return x;
}

double loss(const AttentionCase& c, AttentionTensors<double> x) {
  if (c.rope) x = turned(c, x);
  naive_attention_forward(c, x);
  double sum = 0;
  for (std::size_t i = 0; i < x.out.size(); ++i) sum += x.out[i] * x.dout[i];
  return sum;
}

void check_gradient(const AttentionCase& c, AttentionTensors<double> x,
                    std::vector<double> AttentionTensors<double>::*input,
                    const std::vector<double>& gradient) {
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < gradient.size(); i += 7) {
    const double value = (x.*input)[i];
    (x.*input)[i] = value + kStep;
    const double above = loss(c, x);
    (x.*input)[i] = value - kStep;
    const double below = loss(c, x);
    (x.*input)[i] = value;
    REQUIRE(gradient[i] == Approx((above - below) / (2 * kStep)).epsilon(1e-6).margin(1e-8));
  }
}

}  // namespace

TEST_CASE("the reference gradient agrees with central differences", "[attention]") {
  for (const AttentionKind kind : {AttentionKind::Full, AttentionKind::Swa, AttentionKind::Sa}) {
    AttentionCase c;
    c.pattern = {kind, 6};
    c.cu_seqlens = {0, 11, 12, 25};
    c.heads = 4;
    c.kv_heads = 2;
    INFO(c.describe());
    AttentionTensors<double> x = to_double(random_attention_inputs(c, 1));
    naive_attention_forward(c, x);
    naive_attention_backward(c, x);
    check_gradient(c, x, &AttentionTensors<double>::q, x.dq);
    check_gradient(c, x, &AttentionTensors<double>::k, x.dk);
    check_gradient(c, x, &AttentionTensors<double>::v, x.dv);
  }
}

TEST_CASE("the reference gradient turned back is that of what RoPE turned", "[attention]") {
  AttentionCase c;
  c.cu_seqlens = {0, 5, 12};
  c.heads = 4;
  c.kv_heads = 2;
  c.rope = true;
  const AttentionTensors<double> plain = to_double(random_attention_inputs(c, 1));
  AttentionTensors<double> x = turned(c, plain);
  naive_attention_forward(c, x);
  naive_attention_backward(c, x);
  check_gradient(c, plain, &AttentionTensors<double>::q, x.dq);
  check_gradient(c, plain, &AttentionTensors<double>::k, x.dk);
}

TEST_CASE("the reference softmax is over the visible keys", "[attention]") {
  AttentionCase c;
  c.pattern = {AttentionKind::Swa, 2};
  c.cu_seqlens = {0, 3};
  c.head_size = 1;
  AttentionTensors<double> x = to_double(random_attention_inputs(c, 1));
  x.q = {1, 2, 3};
  x.k = {0.5, 0.25, -1};
  x.v = {10, 20, 30};
  naive_attention_forward(c, x);
  REQUIRE(x.out[0] == 10);
  REQUIRE(x.out[1] ==
          Approx((10 * std::exp(1.0) + 20 * std::exp(0.5)) / (std::exp(1.0) + std::exp(0.5))));
  REQUIRE(x.out[2] ==
          Approx((20 * std::exp(0.75) + 30 * std::exp(-3.0)) / (std::exp(0.75) + std::exp(-3.0))));
  REQUIRE(x.lse[2] == Approx(std::log(std::exp(0.75) + std::exp(-3.0))));
}
