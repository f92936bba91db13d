// Any bytes are either a valid safetensors file, whose tensors can then be read to the last byte,
// or Error Data.

#include <cstdint>
#include <span>

#include "core/error.h"
#include "core/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flywheel;
  try {
    const auto header = parse_safetensors(std::as_bytes(std::span(data, size)), "input");
    volatile std::byte last{};
    for (const SafetensorsEntry& entry : header.entries) {
      if (!entry.bytes.empty()) last = entry.bytes.back();
    }
    static_cast<void>(last);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Data) throw;
  }
  return 0;
}
