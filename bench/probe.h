#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "core/thread_pool.h"

namespace flywheel::bench {

// What the machine can do, sampled between the measurements of a benchmark and with the same
// threads, so that both see the same disturbances. The rates are the best of all samples so far.
class MachineProbe {
 public:
  explicit MachineProbe(ThreadPool& pool) : pool_(pool) {}

  // Fused multiply-adds in registers, about 1 ms. Returns this sample's GFLOP/s.
  double sample_peak();
  // a = b + s c over 192 MiB, three streams counted. Returns this sample's GB/s.
  double sample_triad();

  double peak_gflops() const { return peak_gflops_; }
  double triad_gb_per_second() const { return triad_gb_per_second_; }

 private:
  ThreadPool& pool_;
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float[], Free> triad_memory_;
  double peak_gflops_ = 0;
  double triad_gb_per_second_ = 0;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Best time of one call of f, after a warm-up call: at least 5 calls and `budget` seconds;
// `between` runs before each (for probes or a peer).
template <class F, class Between>
double best_seconds(const F& f, const Between& between, double budget = 0.2) {
  f();
  double best = 1e30;
  double spent = 0;
  for (int call = 0; call < 5 || (spent < budget && call < 200); ++call) {
    between();
    const Stopwatch watch;
    f();
    const double seconds = watch.seconds();
    spent += seconds;
    best = seconds < best ? seconds : best;
  }
  return best;
}

}  // namespace flywheel::bench
