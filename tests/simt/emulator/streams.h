#pragma once

#include "simt/emulator/runtime.h"

namespace simt {

// The sticky error of the device: set by a faulty kernel, cleared by cudaGetLastError.
void fail_device(cudaError_t status);
bool device_failed();
// Runs all queued work.
void drain_streams();

}  // namespace simt
