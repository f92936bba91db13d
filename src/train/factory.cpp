#include "train/factory.h"

#include "core/error.h"
#include "cpu/cpu_backend.h"
#include "cpu/peak_flops.h"

namespace flywheel {

std::unique_ptr<Backend> make_backend(const TrainConfig& config) {
  switch (config.device) {
    case DeviceChoice::Cpu:
      return make_cpu_backend(static_cast<int>(config.threads));
  }
  fail(ErrorKind::Internal, "train.device: no such device");
}

double measure_peak(const TrainConfig& config) {
  switch (config.device) {
    case DeviceChoice::Cpu:
      return measured_peak_flops(static_cast<int>(config.threads));
  }
  fail(ErrorKind::Internal, "train.device: no such device");
}

}  // namespace flywheel
