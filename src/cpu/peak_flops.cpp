#include "cpu/peak_flops.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/peak_flops.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `rounds` of 12 independent multiply-adds; returns their number of floating-point operations. The
// result keeps the compiler from dropping them.
double multiply_add_chains(std::int64_t rounds, float* result) {
  const hn::ScalableTag<float> d;
  const auto x = hn::Set(d, result[0]);
  const auto y = hn::Set(d, result[1]);
  // Different start values: equal chains would be merged into one.
  auto a0 = x;
  auto a1 = hn::Add(a0, y), a2 = hn::Add(a1, y), a3 = hn::Add(a2, y), a4 = hn::Add(a3, y);
  auto a5 = hn::Add(a4, y), a6 = hn::Add(a5, y), a7 = hn::Add(a6, y), a8 = hn::Add(a7, y);
  auto a9 = hn::Add(a8, y), a10 = hn::Add(a9, y), a11 = hn::Add(a10, y);
  for (std::int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, x, y), a1 = hn::MulAdd(a1, x, y), a2 = hn::MulAdd(a2, x, y);
    a3 = hn::MulAdd(a3, x, y), a4 = hn::MulAdd(a4, x, y), a5 = hn::MulAdd(a5, x, y);
    a6 = hn::MulAdd(a6, x, y), a7 = hn::MulAdd(a7, x, y), a8 = hn::MulAdd(a8, x, y);
    a9 = hn::MulAdd(a9, x, y), a10 = hn::MulAdd(a10, x, y), a11 = hn::MulAdd(a11, x, y);
  }
  a0 = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(a4, a5));
  a6 = hn::Add(hn::Add(hn::Add(a6, a7), hn::Add(a8, a9)), hn::Add(a10, a11));
  result[0] = hn::GetLane(hn::Add(a0, a6));
  return static_cast<double>(rounds) * 12.0 * 2.0 * static_cast<double>(hn::Lanes(d));
}

}  // namespace flywheel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel {

HWY_EXPORT(multiply_add_chains);

double sample_peak_flops(ThreadPool& pool) {
  constexpr std::int64_t kRounds = 400'000;
  std::vector<double> operations(static_cast<std::size_t>(pool.size()));
  const auto begin = std::chrono::steady_clock::now();
  pool.run([&](int thread) {
    float result[2] = {0.999F, 1e-3F};
    operations[static_cast<std::size_t>(thread)] =
        HWY_DYNAMIC_DISPATCH(multiply_add_chains)(kRounds, result);
  });
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  double total = 0;
  for (const double part : operations) total += part;
  return total / elapsed.count();
}

double measured_peak_flops(int threads) {
  constexpr int kSamples = 12;
  ThreadPool pool(threads);
  double best = 0;
  for (int sample = 0; sample < kSamples; ++sample) best = std::max(best, sample_peak_flops(pool));
  return best;
}

}  // namespace flywheel
#endif
