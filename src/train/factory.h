#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/communicator.h"
#include "train/train_config.h"

namespace flywheel {

// The only place of the trainer that names devices. A library of its own (flywheel_devices), so
// that tests can put an emulated GPU in place of a real one.

// The ranks of the job. Error Config if there are several and the device cannot talk to others.
std::unique_ptr<Communicator> make_communicator(const RunConfig& config);

// Error Device if the device is not there.
std::unique_ptr<Backend> make_backend(const TrainConfig& config);

// What the device can do at best, in floating-point operations a second.
struct PeakFlops {
  double value = 0;   // 0: not known
  std::string basis;  // "multiply-adds in float32, measured"
};
PeakFlops peak_flops(const TrainConfig& config);

}  // namespace flywheel
