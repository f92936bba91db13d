// The running softmax of a panel of queries, in base 2 (Milakov & Gimelshein 2018). One copy for
// each Highway target.
#if defined(FLYWHEEL_CPU_ATTENTION_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_ATTENTION_SOFTMAX_INL_H
#undef FLYWHEEL_CPU_ATTENTION_SOFTMAX_INL_H
#else
#define FLYWHEEL_CPU_ATTENTION_SOFTMAX_INL_H
#endif

#include <cstdint>

#include "cpu/attention_products-inl.h"
#include "cpu/simd_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Below every score that is not masked, above kMasked: the running maximum before the first key.
constexpr float kNoMaximum = -1e20F;

// Turns the scores of rows [begin, end) into weights under the new maximum; max and sum [kWidth]
// are the running ones, and `correction` brings what was summed before to the new maximum.
template <int kVectors>
HWY_INLINE void softmax_rows(std::int64_t begin, std::int64_t end, float* panel_scores, float* max,
                             float* sum, F32Vector* correction) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  const F32 d;
  for (int v = 0; v < kVectors; ++v) {
    float* scores = panel_scores + v * kLanes;
    float* running_max = max + v * kLanes;
    float* running_sum = sum + v * kLanes;
    const auto old_max = hn::Load(d, running_max);
    auto max0 = old_max;
    auto max1 = old_max;
    std::int64_t r = begin;
    for (; r + 2 <= end; r += 2) {
      max0 = hn::Max(max0, hn::LoadU(d, scores + r * kWidth));
      max1 = hn::Max(max1, hn::LoadU(d, scores + (r + 1) * kWidth));
    }
    if (r < end) max0 = hn::Max(max0, hn::LoadU(d, scores + r * kWidth));
    const auto new_max = hn::Max(max0, max1);
    auto new_sum = hn::Zero(d);
    FLYWHEEL_UNROLL(4)
    for (r = begin; r < end; ++r) {
      const auto weight = exp2(d, hn::Sub(hn::LoadU(d, scores + r * kWidth), new_max));
      hn::StoreU(weight, d, scores + r * kWidth);
      new_sum = hn::Add(new_sum, weight);
    }
    correction[v] = exp2(d, hn::Sub(old_max, new_max));
    hn::Store(new_max, d, running_max);
    hn::Store(hn::MulAdd(hn::Load(d, running_sum), correction[v], new_sum), d, running_sum);
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
