#pragma once

#include <nlohmann/json.hpp>

#include "backend/backend.h"
#include "model/model_config.h"

namespace flywheel::bench {

struct TrainingSetting {
  ModelConfig model;
  std::int64_t sequence = 0, batch = 0;  // tokens of a sequence, sequences of a step
  int steps = 0;
};

// Trains in bf16 on one batch, with each pattern; prints a line each. `peak`: of the device, in
// floating-point operations a second; 0: unknown. A run passes if its loss fell.
nlohmann::json time_training(Backend& device, const TrainingSetting& setting, double peak);

// The losses of bf16 on the device beside those of float32 on the CPU, with each pattern. They pass
// if none is off by more than 2^-7 of itself, two roundings to bf16.
nlohmann::json compare_losses(Backend& device, Backend& cpu, const TrainingSetting& setting);

}  // namespace flywheel::bench
