#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace flywheel {

Schedule::Schedule(const RunConfig& config)
    : kind_(config.schedule.kind),
      peak_(config.optimizer.learning_rate),
      final_fraction_(config.schedule.final_fraction),
      warmup_(*config.schedule.warmup_steps),
      decay_begin_(warmup_),
      last_(*config.train.max_steps) {
  if (kind_ == ScheduleKind::Wsd) {
    const double decay = config.schedule.decay_fraction * static_cast<double>(last_);
    decay_begin_ = std::max(warmup_, last_ - static_cast<std::int64_t>(std::llround(decay)));
  }
}

double Schedule::learning_rate(std::int64_t step) const {
  if (step <= warmup_) return peak_ * static_cast<double>(step) / static_cast<double>(warmup_);
  if (kind_ == ScheduleKind::Constant || step <= decay_begin_) return peak_;
  const double progress = static_cast<double>(std::min(step, last_) - decay_begin_) /
                          static_cast<double>(std::max<std::int64_t>(1, last_ - decay_begin_));
  const double remaining = kind_ == ScheduleKind::Cosine
                               ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                               : 1.0 - progress;
  return peak_ * (final_fraction_ + (1.0 - final_fraction_) * remaining);
}

}  // namespace flywheel
