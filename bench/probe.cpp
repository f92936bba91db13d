#include "bench/probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/probe.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `rounds` of 12 independent multiply-adds; returns their number of floating-point operations.
double multiply_adds(std::int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto x = hn::Set(d, sink[0]);
  const auto y = hn::Set(d, sink[1]);
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
  sink[2] = hn::GetLane(hn::SumOfLanes(d, hn::Add(a0, a6)));
  return static_cast<double>(rounds) * 12.0 * 2.0 * static_cast<double>(hn::Lanes(d));
}

}  // namespace flywheel::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::bench {

HWY_EXPORT(multiply_adds);

double MachineProbe::sample_peak() {
  constexpr std::int64_t kRounds = 400'000;
  std::vector<double> operations(static_cast<std::size_t>(pool_.size()));
  const Stopwatch watch;
  pool_.run([&](int thread) {
    float sink[3] = {0.999F, 1e-3F, 0};
    operations[static_cast<std::size_t>(thread)] =
        HWY_DYNAMIC_DISPATCH(multiply_adds)(kRounds, sink);
  });
  double total = 0;
  for (const double part : operations) total += part;
  const double rate = total / watch.seconds() * 1e-9;
  peak_gflops_ = std::max(peak_gflops_, rate);
  return rate;
}

double MachineProbe::sample_triad() {
  constexpr std::int64_t kElements = 16 * 1024 * 1024;
  if (!triad_memory_) {
    // Huge pages, as the tensors of the CPU backend have them.
    constexpr std::size_t kBytes = 3 * kElements * sizeof(float);
    void* memory = std::aligned_alloc(std::size_t{2} << 20, kBytes);
    madvise(memory, kBytes, MADV_HUGEPAGE);
    triad_memory_.reset(static_cast<float*>(memory));
    std::fill_n(triad_memory_.get(), 3 * kElements, 1.0F);
  }
  float* a = triad_memory_.get();
  const float* b = a + kElements;
  const float* c = b + kElements;
  const Stopwatch watch;
  pool_.for_range(kElements, 1024, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) a[i] = b[i] + 3.0F * c[i];
  });
  const double rate = 3 * 4e-9 * static_cast<double>(kElements) / watch.seconds();
  triad_gb_per_second_ = std::max(triad_gb_per_second_, rate);
  return rate;
}

}  // namespace flywheel::bench
#endif
