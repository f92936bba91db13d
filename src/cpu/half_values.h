#pragma once

#include <array>

namespace flywheel::cpu {

// What each pattern of 16 bits is as a half-precision float. Scales of blocks are looked up: their
// conversion would cost vector units what a block's products do.
extern const std::array<float, 1 << 16> kHalfValues;

}  // namespace flywheel::cpu
