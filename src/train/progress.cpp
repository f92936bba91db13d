#include "train/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/console.h"

namespace flywheel {

ProgressMeter::ProgressMeter(std::int64_t tokens_per_step, double flops_per_token,
                             double peak_flops)
    : tokens_per_step_(static_cast<double>(tokens_per_step)),
      flops_per_token_(flops_per_token),
      peak_flops_(peak_flops) {}

void ProgressMeter::add(double step_seconds, double data_wait_seconds) {
  constexpr double kSmoothing = 0.1;
  seconds_ += step_seconds;
  waited_ += data_wait_seconds;
  steps_ += 1;
  const bool first = smoothed_step_seconds_ == 0;
  smoothed_step_seconds_ += (first ? 1 : kSmoothing) * (step_seconds - smoothed_step_seconds_);
}

void ProgressMeter::start_interval() {
  seconds_ = waited_ = steps_ = 0;
}

void ProgressMeter::sample_peak(double peak_flops) {
  peak_flops_ = std::max(peak_flops_, peak_flops);
}

double ProgressMeter::tokens_per_second() const {
  return seconds_ > 0 ? steps_ * tokens_per_step_ / seconds_ : 0;
}
std::optional<double> ProgressMeter::utilisation() const {
  if (peak_flops_ <= 0) return std::nullopt;
  return tokens_per_second() * flops_per_token_ / peak_flops_;
}
double ProgressMeter::data_wait_share() const {
  return seconds_ > 0 ? waited_ / seconds_ : 0;
}
double ProgressMeter::seconds_left(std::int64_t steps) const {
  return static_cast<double>(steps) * smoothed_step_seconds_;
}

std::string progress_line(const StepReport& report, std::int64_t last_step,
                          const ProgressMeter& meter) {
  const std::optional<double> utilisation = meter.utilisation();
  return fmt::format(
      "step {}/{}  loss {:.4f}  lr {:.2e}  norm {:.3g}  {} tok/s  MFU {}  wait {:.1f}%  {} left{}",
      report.step, last_step, report.loss, report.learning_rate, report.gradient_norm,
      human_count(meter.tokens_per_second()),
      utilisation ? fmt::format("{:.1f}%", 100 * *utilisation) : "unknown",
      100 * meter.data_wait_share(), human_seconds(meter.seconds_left(last_step - report.step)),
      report.skipped ? "  SKIPPED" : "");
}

}  // namespace flywheel
