#pragma once

#include <cstdint>
#include <functional>

#include "simt/emulator/runtime.h"

namespace simt {

// Threads take turns at the device.
class DeviceLock {
 public:
  DeviceLock();
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;
};

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
// Queues work that runs once `ready` says so, which it is asked from when the stream gets there.
void enqueue_when(cudaStream_t stream, std::function<bool()> ready, std::function<void()> work);
// Runs all queued work.
void drain_streams();

}  // namespace simt
