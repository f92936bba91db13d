#pragma once

#include <cstdint>

#include "train/train_config.h"

namespace flywheel {

// The learning rate of each step: linear warmup from 0, then by kind
//   cosine    half a cosine from the peak to final_fraction of it at the last step (Loshchilov &
//   Hutter 2017) linear    a straight line to the same end wsd       the peak, then a straight line
//   to the same end over the last decay_fraction of the run
//             (warmup-stable-decay, Hu et al. 2024)
//   constant  the peak
class Schedule {
 public:
  // Of a resolved config.
  explicit Schedule(const RunConfig& config);
  // Step counts from 1 to the run's last; later steps keep the last one's.
  double learning_rate(std::int64_t step) const;

 private:
  ScheduleKind kind_;
  double peak_;
  double final_fraction_;
  std::int64_t warmup_;
  std::int64_t decay_begin_;
  std::int64_t last_;
};

}  // namespace flywheel
