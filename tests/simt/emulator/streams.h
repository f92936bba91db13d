#pragma once

#include <cstdint>

#include "simt/emulator/runtime.h"

namespace simt {

// The sticky error of the device: set by a faulty kernel, cleared by cudaGetLastError.
void fail_device(cudaError_t status);
bool device_failed();
// For calls that no capture of a stream allows: whether there is one, which is then invalid.
bool interrupts_capture();
// How often a graph was queued.
std::uint64_t graph_launches();
// How often the host waited for the device.
std::uint64_t host_waits();
// Moves the clock of the device on; called by queued work.
void pass_time(double nanoseconds);
// Runs all queued work.
void drain_streams();

}  // namespace simt
