#pragma once

#include <memory>

#include "backend/backend.h"
#include "train/train_config.h"

namespace flywheel {

// The only place of the trainer that names devices.
std::unique_ptr<Backend> make_backend(const TrainConfig& config);

// What the device can do at best, measured, in floating-point operations a second.
double measure_peak(const TrainConfig& config);

}  // namespace flywheel
