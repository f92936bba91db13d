#pragma once

#include <cstdint>
#include <optional>

namespace flywheel {

// Finds values far above what came before: keeps an exponentially weighted mean and variance (time
// constant 100 values) of the values that were not outliers themselves.
class OutlierDetector {
 public:
  explicit OutlierDetector(double sigmas) : sigmas_(sigmas) {}  // 0: never

  // The distance above the mean in standard deviations, if it is beyond the threshold. The first 20
  // values only teach.
  std::optional<double> observe(double value);

 private:
  double sigmas_;
  std::int64_t count_ = 0;
  double mean_ = 0;
  double variance_ = 0;
};

}  // namespace flywheel
