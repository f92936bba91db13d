#include <algorithm>
#include <cmath>

#include "cpu/kernels.h"
#include "cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/loss.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/simd_loops-inl.h"
#include "cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

HWY_INLINE float largest(const float* x, std::int64_t count) {
  const F32 d;
  auto m0 = hn::Set(d, x[0]);
  auto m1 = m0;
  auto m2 = m0;
  auto m3 = m0;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + 4 * step <= count; i += 4 * step) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + step));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * step));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * step));
  }
  m0 = hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
  float best = hn::GetLane(hn::MaxOfLanes(d, m0));
  for (; i < count; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// The first of x[0..count) that equals `value`; 0 if none does (there is a NaN).
HWY_INLINE std::int64_t index_of(const float* x, std::int64_t count, float value) {
  const F32 d;
  const auto wanted = hn::Set(d, value);
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + step <= count; i += step) {
    const std::intptr_t lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, x + i), wanted));
    if (lane >= 0) return i + lane;
  }
  for (; i < count; ++i) {
    if (x[i] == value) return i;
  }
  return 0;
}

// Sum of e^(x - shift); the terms replace x if kStore.
template <bool kStore>
HWY_INLINE float sum_of_some_exponentials(float* x, std::int64_t count, float shift) {
  const F32 d;
  const auto to_power_of_two = hn::Set(d, kLog2E);
  const auto origin = hn::Set(d, shift);
  const auto term = [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto e = exp2(d, hn::Mul(hn::Sub(lanes.load(x + i), origin), to_power_of_two));
    if constexpr (kStore) lanes.store(e, x + i);
    return e;
  };
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = count / step * step;
  float sum = sum_vectors(whole, [&](std::int64_t i, auto lanes, F32Vector s)
                                     HWY_ATTR { return hn::Add(s, term(i, lanes)); });
  if (whole < count) {
    const PartVector rest{hn::FirstN(d, static_cast<std::size_t>(count - whole))};
    sum += hn::GetLane(hn::SumOfLanes(d, hn::IfThenElseZero(rest.mask, term(whole, rest))));
  }
  return sum;
}

// In pieces that are added up in double: over a whole vocabulary, one float would lose the many
// small terms beside the large one, and every loss would be some 1e-6 too low.
template <bool kStore>
HWY_INLINE float sum_of_exponentials(float* x, std::int64_t count, float shift) {
  constexpr std::int64_t kPiece = 512;
  double sum = 0;
  for (std::int64_t i = 0; i < count; i += kPiece) {
    sum += double{sum_of_some_exponentials<kStore>(x + i, std::min(kPiece, count - i), shift)};
  }
  return static_cast<float>(sum);
}

void cross_entropy_rows(const CrossEntropy& args, std::int64_t begin, std::int64_t end) {
  const F32 d;
  const std::int64_t padded = args.logits.shape[1];
  const std::int64_t vocab = args.vocab_size;
  for (std::int64_t row = begin; row < end; ++row) {
    float* x = args.logits.f32() + row * padded;
    const std::int32_t target = args.targets.i32()[row];
    if (target < 0) {
      args.losses.f32()[row] = 0;
      if (args.most_likely) args.most_likely.i32()[row] = -1;
      if (args.gradient_scale != 0) std::fill_n(x, padded, 0.0F);
      continue;
    }
    const float target_logit = x[target];
    const float top = largest(x, vocab);
    if (args.most_likely) {
      args.most_likely.i32()[row] = static_cast<std::int32_t>(index_of(x, vocab, top));
    }
    const float sum = args.gradient_scale != 0 ? sum_of_exponentials<true>(x, vocab, top)
                                               : sum_of_exponentials<false>(x, vocab, top);
    const float log_sum = std::log(sum);
    args.losses.f32()[row] = log_sum + (top - target_logit);
    if (args.gradient_scale == 0) continue;
    // d(loss + z lse^2) = p (1 + 2 z lse) - onehot
    const float slope = 1 + 2 * args.z_loss * (top + log_sum);
    const auto factor = hn::Set(d, args.gradient_scale * slope / sum);
    for_vectors(vocab, [&](std::int64_t i, auto lanes)
                           HWY_ATTR { lanes.store(hn::Mul(lanes.load(x + i), factor), x + i); });
    x[target] -= args.gradient_scale;
    std::fill(x + vocab, x + padded, 0.0F);
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(cross_entropy_rows);

void cross_entropy(const CrossEntropy& args, ThreadPool& pool) {
  check_indices("cross_entropy: targets", args.targets, args.vocab_size, -1);
  pool.for_range(args.logits.shape[0], row_grain(args.logits.shape[1]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(cross_entropy_rows)(args, begin, end);
                 });
}

}  // namespace flywheel::cpu
#endif
