// Vector functions on f32, one copy for each Highway target. Include after hwy/highway.h, in a file
// that foreach_target.h compiles again for each target.
#if defined(FLYWHEEL_CPU_SIMD_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_SIMD_MATH_INL_H
#undef FLYWHEEL_CPU_SIMD_MATH_INL_H
#else
#define FLYWHEEL_CPU_SIMD_MATH_INL_H
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kLog2E = 1.44269504F;
constexpr float kLn2 = 0.693147181F;

// x * 2^n for integral n; NaN stays NaN.
template <class D, class V>
HWY_INLINE V scale_by_power_of_two(D d, V x, V n) {
  const hn::RebindToSigned<D> di;
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, n));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, x), exponent));
}

// 2^x for x <= 127, relative error below 1.8e-7 (a minimax polynomial of degree 5 on [-1/2, 1/2]).
// At -127 and below exactly 0. The cheap one, for softmax.
template <class D, class V>
HWY_INLINE V exp2(D d, V x) {
  x = hn::Max(hn::Set(d, -127.0F), x);
  const V n = hn::Round(x);
  const V f = hn::Sub(x, n);
  V p = hn::Set(d, 0.00132647273F);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00967151299F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555073359F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.240222424F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693147004F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0F));
  return scale_by_power_of_two(d, p, n);
}

// e^x within about one unit in the last place for |x| <= 87; clamped to that range, NaN stays NaN.
template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  x = hn::Min(hn::Set(d, 87.3F), hn::Max(hn::Set(d, -87.3F), x));
  const V n = hn::Round(hn::Mul(x, hn::Set(d, kLog2E)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752F), x);  // ln 2 in two parts (Cody and Waite)
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6F), r);
  V p = hn::Set(d, 0.00138146128F);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00836871006F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416683890F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665211F));
  p = hn::MulAdd(p, r, hn::Set(d, 0.499999940F));
  p = hn::MulAdd(hn::Mul(p, r), r, hn::Add(r, hn::Set(d, 1.0F)));
  return scale_by_power_of_two(d, p, n);
}

// 1 / (1 + e^-x)
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, exp(d, hn::Neg(x))));
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
