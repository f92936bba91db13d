#include <algorithm>
#include <cmath>

#include "cpu/kernels.h"
#include "cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/optimizer_step.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/simd_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

void adamw_elements(const AdamWStep& args, std::int64_t begin, std::int64_t end) {
  const F32 d;
  const double step = static_cast<double>(args.step);
  const double m_correction = 1 - std::pow(static_cast<double>(args.beta1), step);
  const double v_correction = 1 - std::pow(static_cast<double>(args.beta2), step);
  const double rate = args.learning_rate;
  const auto clip = hn::Set(d, args.clip.f32()[0]);
  const auto beta1 = hn::Set(d, args.beta1);
  const auto beta2 = hn::Set(d, args.beta2);
  const auto rest1 = hn::Set(d, 1.0F - args.beta1);
  const auto rest2 = hn::Set(d, 1.0F - args.beta2);
  const auto m_factor = hn::Set(d, static_cast<float>(rate / m_correction));
  const auto v_factor = hn::Set(d, static_cast<float>(1 / v_correction));
  const auto eps = hn::Set(d, args.eps);
  const auto decay = hn::Set(d, static_cast<float>(rate * static_cast<double>(args.weight_decay)));
  float* param = args.param.f32() + begin;
  float* first = args.m.f32() + begin;
  float* second = args.v.f32() + begin;
  const float* grad = args.grad.f32() + begin;
  for_vectors(end - begin, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const auto g = hn::Mul(lanes.load(grad + i), clip);
    const auto m = hn::MulAdd(beta1, lanes.load(first + i), hn::Mul(rest1, g));
    const auto v = hn::MulAdd(beta2, lanes.load(second + i), hn::Mul(rest2, hn::Mul(g, g)));
    const auto spread = hn::Add(hn::Sqrt(hn::Mul(v, v_factor)), eps);
    const auto w = lanes.load(param + i);
    const auto update = hn::MulAdd(decay, w, hn::Div(hn::Mul(m, m_factor), spread));
    lanes.store(m, first + i);
    lanes.store(v, second + i);
    lanes.store(hn::Sub(w, update), param + i);
  });
}

double sum_of_squares_elements(const float* x, std::int64_t count) {
  const F32 d;
  const hn::RepartitionToWide<F32> wide;
  const hn::Half<F32> half;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(wide);
  auto s1 = s0;
  const auto accumulate = [&](F32Vector v) HWY_ATTR {
    const auto low = hn::PromoteTo(wide, hn::LowerHalf(half, v));
    const auto high = hn::PromoteTo(wide, hn::UpperHalf(half, v));
    s0 = hn::MulAdd(low, low, s0);
    s1 = hn::MulAdd(high, high, s1);
  };
  std::int64_t i = 0;
  for (; i + step <= count; i += step) accumulate(hn::LoadU(d, x + i));
  if (i < count) {
    accumulate(hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count - i)), d, x + i));
  }
  return hn::GetLane(hn::SumOfLanes(wide, hn::Add(s0, s1)));
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(adamw_elements);
HWY_EXPORT(sum_of_squares_elements);

void adamw_step(const AdamWStep& args, ThreadPool& pool) {
  pool.for_range(args.param.elements(), kElementGrain,
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(adamw_elements)(args, begin, end);
                 });
}

void sum(const Sum& args) {
  double sum = 0;
  for (std::int64_t i = 0; i < args.x.elements(); ++i) sum += static_cast<double>(args.x.f32()[i]);
  double& out = args.out.f64()[0];
  out = args.accumulate ? out + sum : sum;
}

void sum_of_squares(const SumOfSquares& args, ThreadPool& pool, const Workspace& workspace) {
  constexpr std::int64_t kMaxBlocks = 4096;
  const std::int64_t count = args.x.elements();
  const std::int64_t block = std::max(kElementGrain, (count + kMaxBlocks - 1) / kMaxBlocks);
  const std::int64_t blocks = (count + block - 1) / block;
  auto* partials = reinterpret_cast<double*>(workspace.shared());
  pool.for_range(blocks, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      partials[i] = HWY_DYNAMIC_DISPATCH(sum_of_squares_elements)(
          args.x.f32() + i * block, std::min(block, count - i * block));
    }
  });
  double sum = 0;
  for (std::int64_t i = 0; i < blocks; ++i) sum += partials[i];
  args.out.f64()[0] = sum;
}

}  // namespace flywheel::cpu
#endif
