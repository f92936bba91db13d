#include "bench/probe.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>

#include "core/error.h"
#include "cpu/matrix_units.h"
#include "cpu/peak_flops.h"
#include "hwy/targets.h"

namespace flywheel::bench {

void limit_vectors(const std::string& name) {
  require(name == "avx2" || name == "avx512" || name == "all", ErrorKind::Config,
          "--vectors takes {}, not \"{}\"", kVectorsHelp, name);
  require(name != "avx512" || (hwy::SupportedTargets() & HWY_AVX3) != 0, ErrorKind::Device,
          "--vectors avx512: this machine has no AVX-512");
  if (name == "avx2") hwy::SetSupportedTargetsForTest(HWY_AVX2);
  if (name == "avx512") cpu::switch_matrix_units(false);
}

double MachineProbe::sample_peak() {
  const double rate = sample_peak_flops(pool_) * 1e-9;
  peak_gflops_ = std::max(peak_gflops_, rate);
  return rate;
}

float* MachineProbe::memory() {
  if (!memory_) {
    // Huge pages, as the tensors of the CPU backend have them.
    constexpr std::size_t kBytes = 3 * kElements * sizeof(float);
    void* memory = std::aligned_alloc(std::size_t{2} << 20, kBytes);
    madvise(memory, kBytes, MADV_HUGEPAGE);
    memory_.reset(static_cast<float*>(memory));
    std::fill_n(memory_.get(), 3 * kElements, 1.0F);
  }
  return memory_.get();
}

double MachineProbe::sample_triad() {
  float* a = memory();
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

double MachineProbe::sample_read() {
  const auto* words = reinterpret_cast<const std::uint32_t*>(memory());
  std::atomic<std::uint32_t> all{0};
  const Stopwatch watch;
  pool_.for_range(3 * kElements, 1024, [&](std::int64_t begin, std::int64_t end, int) {
    // Four streams a thread, with prefetching, read faster than one.
    const std::int64_t quarter = (end - begin) / 4;
    constexpr std::int64_t kLine = 16;
    std::array<std::uint32_t, kLine> sums{};
    for (std::int64_t i = begin; i + kLine <= begin + quarter; i += kLine) {
      for (std::int64_t stream = 0; stream < 4; ++stream) {
        const std::uint32_t* line = words + i + stream * quarter;
        __builtin_prefetch(line + 64 * kLine);
        for (std::size_t j = 0; j < kLine; ++j) sums[j] += line[j];
      }
    }
    all += std::accumulate(sums.begin(), sums.end(), 0U);
  });
  const double rate = 3 * 4e-9 * static_cast<double>(kElements) / watch.seconds();
  read_gb_per_second_ = std::max(read_gb_per_second_, rate);
  return rate;
}

}  // namespace flywheel::bench
