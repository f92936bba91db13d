#include "bench/probe.h"

#include <sys/mman.h>

#include <algorithm>

#include "cpu/peak_flops.h"

namespace flywheel::bench {

double MachineProbe::sample_peak() {
  const double rate = sample_peak_flops(pool_) * 1e-9;
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
