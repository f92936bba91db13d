#include "train/outliers.h"

#include <algorithm>
#include <cmath>

namespace flywheel {
namespace {
constexpr std::int64_t kWindow = 100;
constexpr std::int64_t kLearning = 20;
}  // namespace

std::optional<double> OutlierDetector::observe(double value) {
  if (sigmas_ == 0 || !std::isfinite(value)) return std::nullopt;
  const double deviation = value - mean_;
  const double spread = std::sqrt(variance_) + 1e-6 * std::abs(mean_);
  const bool outlier = count_ >= kLearning && deviation > sigmas_ * spread;
  const double sigmas = outlier ? deviation / spread : 0;
  ++count_;
  // An outlier teaches as if it lay at the threshold, so that a lasting change is accepted in time.
  const double step = outlier ? sigmas_ * spread : deviation;
  const double weight = 1.0 / static_cast<double>(std::min(count_, kWindow));
  mean_ += weight * step;
  variance_ = (1.0 - weight) * (variance_ + weight * step * step);
  return outlier ? std::optional(sigmas) : std::nullopt;
}

}  // namespace flywheel
