#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/thread_pool.h"

namespace flywheel::bench {

// Leaves the kernels the vector units up to `name`: avx2, avx512 (without AMX and VNNI) or all.
// Error Config for another name.
void limit_vectors(const std::string& name);
inline constexpr const char* kVectorsHelp = "avx2, avx512 (without AMX and VNNI) or all";

// What the machine can do, sampled between the measurements of a benchmark and with the same
// threads, so that both see the same disturbances. The rates are the best of all samples so far.
class MachineProbe {
 public:
  explicit MachineProbe(ThreadPool& pool) : pool_(pool) {}

  // Fused multiply-adds in registers, about 1 ms. Returns this sample's GFLOP/s.
  double sample_peak();
  // a = b + s c over 192 MiB, three streams counted. Returns this sample's GB/s.
  double sample_triad();
  // Reads 192 MiB once and does nothing else. Returns this sample's GB/s.
  double sample_read();

  double peak_gflops() const { return peak_gflops_; }
  double triad_gb_per_second() const { return triad_gb_per_second_; }
  double read_gb_per_second() const { return read_gb_per_second_; }

 private:
  static constexpr std::int64_t kElements = std::int64_t{16} << 20;  // of each of three streams
  float* memory();

  ThreadPool& pool_;
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float[], Free> memory_;
  double peak_gflops_ = 0;
  double triad_gb_per_second_ = 0;
  double read_gb_per_second_ = 0;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct PairedTiming {
  double best_seconds;   // of one call
  double share;          // median over the calls of their rate over the samples beside them
  double over_peer = 0;  // median over the calls of the peer's time over theirs; 0: no peer
};

// Calls f at least 5 times and for `budget` seconds, after a warm-up call. `amount` is the work of
// a call in the unit of `sample`, which is taken before and after each: a disturbed machine slows
// both. `peer` runs after each and returns its seconds.
template <class F, class Sample>
PairedTiming paired_timing(const F& f, double amount, const Sample& sample, double budget,
                           const std::function<double()>& peer = {}) {
  f();
  if (peer) peer();
  std::vector<double> shares;
  std::vector<double> against_peer;
  double best = 1e30;
  for (double spent = 0; shares.size() < 5 || (spent < budget && shares.size() < 200);) {
    const double before = sample();
    const Stopwatch watch;
    f();
    const double seconds = watch.seconds();
    shares.push_back(amount / seconds / ((before + sample()) / 2));
    spent += seconds;
    best = std::min(best, seconds);
    if (!peer) continue;
    const double peer_seconds = peer();
    against_peer.push_back(peer_seconds / seconds);
    spent += peer_seconds;
  }
  return {best, median(shares), peer ? median(against_peer) : 0};
}

}  // namespace flywheel::bench
