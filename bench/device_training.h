#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/model_config.h"

namespace flywheel::bench {

struct TrainingSetting {
  ModelConfig model;
  std::int64_t sequence = 0, batch = 0;  // tokens of a sequence, sequences of a step
  int steps = 0;
};

struct TrainingFigures {
  std::string pattern;
  std::vector<double> losses;
  double step_seconds = 0;  // the best
  double tokens_per_second = 0;
  std::optional<double> mfu;
  bool passed = false;
};

// Trains in bf16 on one batch, with each pattern; prints a line each. `peak`: of the device, in
// floating-point operations a second; 0: unknown. A run passes if its loss fell.
std::vector<TrainingFigures> time_training(Backend& device, const TrainingSetting& setting,
                                           double peak);

struct LossComparison {
  std::string pattern;
  std::vector<double> bf16, float32;
  double difference = 0;  // the largest, relative
  bool passed = false;
};

// The losses of bf16 on the device beside those of float32 on the CPU, with each pattern. They pass
// if none is off by more than 2^-7 of itself, two roundings to bf16.
std::vector<LossComparison> compare_losses(Backend& device, Backend& cpu,
                                           const TrainingSetting& setting);

}  // namespace flywheel::bench
