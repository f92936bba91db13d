#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/communicator.h"
#include "train/train_config.h"

namespace flywheel {

// The only place of the trainer that names devices. A library of its own (flywheel_devices), so
// that tests can put an emulated GPU in place of a real one.

// Error Device if the device is not there. Of several GPUs, each rank takes its own.
std::unique_ptr<Backend> make_backend(const TrainConfig& config);

// The ranks of the job, whose tensors lie where `backend` computes, and which outlives them. Waits
// for all. Error Config if the way that they were started does not go with the device.
std::unique_ptr<Communicator> make_communicator(const RunConfig& config, Backend& backend);

// What to write before a command so that it starts as many ranks again; a remark if that is
// unknown.
std::string launch_prefix(std::int64_t ranks);

// What the device can do at best, in floating-point operations a second.
struct PeakFlops {
  double value = 0;   // 0: not known
  std::string basis;  // "multiply-adds in float32, measured"
};
PeakFlops peak_flops(const TrainConfig& config);

}  // namespace flywheel
