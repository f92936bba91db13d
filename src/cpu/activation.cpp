#include <algorithm>

#include "cpu/kernels.h"
#include "cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/activation.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/simd_loops-inl.h"
#include "cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

void swiglu_rows(const SwigluForward& args, std::int64_t begin, std::int64_t end) {
  const F32 d;
  const std::int64_t width = args.out.shape[1];
  for (std::int64_t row = begin; row < end; ++row) {
    const float* gate = args.gate_up.f32() + 2 * row * width;
    const float* up = gate + width;
    float* out = args.out.f32() + row * width;
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      const auto x = lanes.load(gate + i);
      lanes.store(hn::Mul(hn::Mul(x, sigmoid(d, x)), lanes.load(up + i)), out + i);
    });
  }
}

// With s = sigmoid(gate): dup = dout gate s, dgate = dout up (s + gate s (1 - s)).
void swiglu_backward_rows(const SwigluBackward& args, std::int64_t begin, std::int64_t end) {
  const F32 d;
  const auto one = hn::Set(d, 1.0F);
  const std::int64_t width = args.dout.shape[1];
  for (std::int64_t row = begin; row < end; ++row) {
    const float* gate = args.gate_up.f32() + 2 * row * width;
    const float* up = gate + width;
    const float* dout = args.dout.f32() + row * width;
    float* dgate = args.dgate_up.f32() + 2 * row * width;
    float* dup = dgate + width;
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      const auto x = lanes.load(gate + i);
      const auto u = lanes.load(up + i);
      const auto g = lanes.load(dout + i);
      const auto s = sigmoid(d, x);
      const auto silu = hn::Mul(x, s);
      lanes.store(hn::Mul(g, silu), dup + i);
      const auto slope = hn::MulAdd(silu, hn::Sub(one, s), s);
      lanes.store(hn::Mul(hn::Mul(g, u), slope), dgate + i);
    });
  }
}

// x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3); here is 2u.
constexpr float kTwiceRootTwoOverPi = 1.59576912F;
constexpr float kCubic = 0.044715F;

template <class V>
HWY_INLINE V gelu_argument(F32 d, V x, V square) {
  const V inner = hn::MulAdd(hn::Mul(hn::Set(d, kCubic), square), x, x);
  return hn::Mul(hn::Set(d, kTwiceRootTwoOverPi), inner);
}

void gelu_elements(const GeluForward& args, std::int64_t begin, std::int64_t end) {
  const F32 d;
  const float* from = args.x.f32() + begin;
  float* out = args.out.f32() + begin;
  for_vectors(end - begin, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto x = lanes.load(from + i);
    lanes.store(hn::Mul(x, sigmoid(d, gelu_argument(d, x, hn::Mul(x, x)))), out + i);
  });
}

// With s = sigmoid(z): slope = s + x s (1 - s) dz/dx.
void gelu_backward_elements(const GeluBackward& args, std::int64_t begin, std::int64_t end) {
  const F32 d;
  const auto one = hn::Set(d, 1.0F);
  const float* from = args.x.f32() + begin;
  const float* dout = args.dout.f32() + begin;
  float* dx = args.dx.f32() + begin;
  for_vectors(end - begin, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto x = lanes.load(from + i);
    const auto square = hn::Mul(x, x);
    const auto s = sigmoid(d, gelu_argument(d, x, square));
    const auto dz =
        hn::Mul(hn::Set(d, kTwiceRootTwoOverPi), hn::MulAdd(hn::Set(d, 3 * kCubic), square, one));
    const auto slope = hn::MulAdd(hn::Mul(hn::Mul(x, s), hn::Sub(one, s)), dz, s);
    lanes.store(hn::Mul(lanes.load(dout + i), slope), dx + i);
  });
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(swiglu_rows);
HWY_EXPORT(swiglu_backward_rows);
HWY_EXPORT(gelu_elements);
HWY_EXPORT(gelu_backward_elements);

void swiglu_forward(const SwigluForward& args, ThreadPool& pool) {
  pool.for_range(args.out.shape[0], row_grain(args.out.shape[1]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(swiglu_rows)(args, begin, end);
                 });
}

void swiglu_backward(const SwigluBackward& args, ThreadPool& pool) {
  pool.for_range(args.dout.shape[0], row_grain(args.dout.shape[1]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(swiglu_backward_rows)(args, begin, end);
                 });
}

void gelu_forward(const GeluForward& args, ThreadPool& pool) {
  pool.for_range(args.x.elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(gelu_elements)(args, begin, end);
  });
}

void gelu_backward(const GeluBackward& args, ThreadPool& pool) {
  pool.for_range(args.x.elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(gelu_backward_elements)(args, begin, end);
  });
}

}  // namespace flywheel::cpu
#endif
