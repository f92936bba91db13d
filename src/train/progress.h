#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/trainer.h"

namespace flywheel {

// Rates of a run since the last line of the log.
class ProgressMeter {
 public:
  // `flops_per_token` and `peak_flops` (0: unknown) give the utilisation (docs/training.md).
  ProgressMeter(std::int64_t tokens_per_step, double flops_per_token, double peak_flops);

  void add(double step_seconds, double data_wait_seconds);
  void start_interval();  // after a line
  // A later sample of the peak: the best one counts, since others may use the machine meanwhile.
  void sample_peak(double peak_flops);

  double tokens_per_second() const;
  std::optional<double> utilisation() const;  // share of the peak
  double data_wait_share() const;             // of the step time
  double seconds_left(std::int64_t steps) const;

 private:
  double tokens_per_step_;
  double flops_per_token_;
  double peak_flops_;
  double seconds_ = 0;
  double waited_ = 0;
  double steps_ = 0;
  double smoothed_step_seconds_ = 0;
};

// "step 12/100  loss 4.1234  lr 3.00e-04  norm 0.87  12.3k tok/s  MFU 45.1%  wait 0.0%  3m20s left"
std::string progress_line(const StepReport& report, std::int64_t last_step,
                          const ProgressMeter& meter);

}  // namespace flywheel
