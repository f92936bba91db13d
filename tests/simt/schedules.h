#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "simt/emulator/config.h"

namespace flywheel::test {

// In which order threads run and when asynchronous copies land.
struct Schedule {
  simt::Order order = simt::Order::kRoundRobin;
  simt::Landing landing = simt::Landing::kEager;
  std::uint64_t seed = 1;

  std::string name() const {
    return fmt::format("order {} landing {} seed {}", static_cast<int>(order),
                       static_cast<int>(landing), seed);
  }
};

// Both orderly ones, and `seeds` each of two that are not.
inline std::vector<Schedule> unruly_schedules(std::uint64_t seeds) {
  using simt::Landing;
  using simt::Order;
  std::vector<Schedule> schedules{{Order::kRoundRobin, Landing::kEager},
                                  {Order::kReverse, Landing::kLazy}};
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    schedules.push_back({Order::kRandom, Landing::kMixed, seed});
    schedules.push_back({Order::kSkew, Landing::kMixed, seed});
  }
  return schedules;
}

// Runs kernels under a schedule while it lives.
class ScheduleScope {
 public:
  explicit ScheduleScope(const Schedule& schedule) : before_(simt::config) {
    simt::config.order = schedule.order;
    simt::config.landing = schedule.landing;
    simt::config.seed = schedule.seed;
  }
  ~ScheduleScope() { simt::config = before_; }
  ScheduleScope(const ScheduleScope&) = delete;
  ScheduleScope& operator=(const ScheduleScope&) = delete;

 private:
  simt::Config before_;
};

}  // namespace flywheel::test
