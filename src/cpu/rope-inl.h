// Rotary positions (Su et al. 2021), one copy for each Highway target.
#if defined(FLYWHEEL_CPU_ROPE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_ROPE_INL_H
#undef FLYWHEEL_CPU_ROPE_INL_H
#else
#define FLYWHEEL_CPU_ROPE_INL_H
#endif

#include <cstdint>

#include "cpu/simd_loops-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Turns the pairs (m, m + half) by the angles of a position, or back. out may be x.
template <bool kBack>
HWY_INLINE void rotate_head(float* out, const float* x, const float* cos, const float* sin,
                            std::int64_t half) {
  for_vectors(half, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto a = lanes.load(x + i);
    const auto b = lanes.load(x + i + half);
    const auto c = lanes.load(cos + i);
    auto s = lanes.load(sin + i);
    if constexpr (kBack) s = hn::Neg(s);
    lanes.store(hn::NegMulAdd(b, s, hn::Mul(a, c)), out + i);
    lanes.store(hn::MulAdd(a, s, hn::Mul(b, c)), out + i + half);
  });
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
