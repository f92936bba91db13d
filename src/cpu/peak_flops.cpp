#include "cpu/peak_flops.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/peak_flops.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChains = 10;  // latency times issue rate, with some to spare

// Independent chains of multiply-adds; the result keeps the compiler from dropping them.
double multiply_add_chains(std::int64_t rounds, float* result) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, result[0]);
  const auto term = hn::Set(d, result[1]);
  auto c0 = term, c1 = term, c2 = term, c3 = term, c4 = term;
  auto c5 = term, c6 = term, c7 = term, c8 = term, c9 = term;
  for (std::int64_t round = 0; round < rounds; ++round) {
    c0 = hn::MulAdd(c0, factor, term);
    c1 = hn::MulAdd(c1, factor, term);
    c2 = hn::MulAdd(c2, factor, term);
    c3 = hn::MulAdd(c3, factor, term);
    c4 = hn::MulAdd(c4, factor, term);
    c5 = hn::MulAdd(c5, factor, term);
    c6 = hn::MulAdd(c6, factor, term);
    c7 = hn::MulAdd(c7, factor, term);
    c8 = hn::MulAdd(c8, factor, term);
    c9 = hn::MulAdd(c9, factor, term);
  }
  const auto low = hn::Add(hn::Add(c0, c1), hn::Add(c2, c3));
  const auto high = hn::Add(hn::Add(c4, c5), hn::Add(c6, c7));
  result[0] = hn::GetLane(hn::Add(hn::Add(low, high), hn::Add(c8, c9)));
  return static_cast<double>(rounds) * kChains * 2 * static_cast<double>(hn::Lanes(d));
}

}  // namespace flywheel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel {

HWY_EXPORT(multiply_add_chains);

double measured_peak_flops(int threads) {
  constexpr std::int64_t kRounds = 300'000;
  constexpr int kSamples = 8;
  ThreadPool pool(threads);
  std::vector<double> operations(static_cast<std::size_t>(pool.size()));
  double best = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto begin = std::chrono::steady_clock::now();
    pool.run([&](int thread) {
      float result[2] = {0.999F, 1e-3F};
      operations[static_cast<std::size_t>(thread)] =
          HWY_DYNAMIC_DISPATCH(multiply_add_chains)(kRounds, result);
    });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    double total = 0;
    for (const double part : operations) total += part;
    best = std::max(best, total / elapsed.count());
  }
  return best;
}

}  // namespace flywheel
#endif
