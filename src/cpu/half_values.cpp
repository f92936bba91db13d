#include "cpu/half_values.h"

#include <cstddef>
#include <cstdint>

#include "core/float16.h"

namespace flywheel::cpu {
namespace {

std::array<float, 1 << 16> convert_all() {
  std::array<float, 1 << 16> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = half_to_float(static_cast<std::uint16_t>(i));
  }
  return values;
}

}  // namespace

const std::array<float, 1 << 16> kHalfValues = convert_all();

}  // namespace flywheel::cpu
