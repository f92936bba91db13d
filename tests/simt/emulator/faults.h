#pragma once

#include <signal.h>

#include <array>
#include <string>

#include "simt/emulator/block.h"

namespace simt {

// While one lives, faults of a fiber (SIGSEGV and its like) become errors of its thread.
class FaultHandlers {
 public:
  FaultHandlers();
  ~FaultHandlers();
  FaultHandlers(const FaultHandlers&) = delete;
  FaultHandlers& operator=(const FaultHandlers&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  std::array<struct sigaction, kSignals.size()> before_{};
};

// Notes an error of the running block or, outside one, of the device. Returns.
void report(const std::string& message);

// Leaves the running block for good.
[[noreturn]] void abandon_block();

// "(3,0,0)"
std::string text_of(uint3 index);
// "0-39,41-63"
std::string text_of_ranges(const std::vector<int>& numbers);

// Where an address lies in device memory: "byte 8 of an allocation of 4 bytes"; empty if nowhere.
std::string describe_device_address(const void* address);

}  // namespace simt
