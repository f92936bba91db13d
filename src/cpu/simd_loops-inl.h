// Loops over f32 arrays whose length need not be a multiple of the vector's, for each Highway
// target.
#if defined(FLYWHEEL_CPU_SIMD_LOOPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_SIMD_LOOPS_INL_H
#undef FLYWHEEL_CPU_SIMD_LOOPS_INL_H
#else
#define FLYWHEEL_CPU_SIMD_LOOPS_INL_H
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using F32Vector = hn::Vec<F32>;
using F32Mask = hn::Mask<F32>;

// A whole vector's worth of elements.
struct WholeVector {
  HWY_INLINE F32Vector load(const float* p) const { return hn::LoadU(F32(), p); }
  HWY_INLINE void store(F32Vector v, float* p) const { hn::StoreU(v, F32(), p); }
};

// The elements left at the end; the other lanes load as 0 and are not stored.
struct PartVector {
  F32Mask mask;
  HWY_INLINE F32Vector load(const float* p) const { return hn::MaskedLoad(mask, F32(), p); }
  HWY_INLINE void store(F32Vector v, float* p) const { hn::BlendedStore(v, mask, F32(), p); }
};

// body(i, lanes) for consecutive vectors of [0, count).
template <class Body>
HWY_INLINE void for_vectors(std::int64_t count, const Body& body) {
  const F32 d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + step <= count; i += step) body(i, WholeVector());
  if (i < count) body(i, PartVector{hn::FirstN(d, static_cast<std::size_t>(count - i))});
}

// Sum of [0, count): accumulate(i, lanes, sum) adds a vector's terms to `sum`. Four chains hide the
// latency.
template <class Accumulate>
HWY_INLINE float sum_vectors(std::int64_t count, const Accumulate& accumulate) {
  const F32 d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  F32Vector s0 = hn::Zero(d);
  F32Vector s1 = s0;
  F32Vector s2 = s0;
  F32Vector s3 = s0;
  std::int64_t i = 0;
  const WholeVector whole;
  for (; i + 4 * step <= count; i += 4 * step) {
    s0 = accumulate(i, whole, s0);
    s1 = accumulate(i + step, whole, s1);
    s2 = accumulate(i + 2 * step, whole, s2);
    s3 = accumulate(i + 3 * step, whole, s3);
  }
  for (; i + step <= count; i += step) s0 = accumulate(i, whole, s0);
  if (i < count) {
    s1 = accumulate(i, PartVector{hn::FirstN(d, static_cast<std::size_t>(count - i))}, s1);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
