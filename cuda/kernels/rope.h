#pragma once

#include <cstdint>

namespace flywheel::cuda {

// RoPE's tables [P, D/2] and the position of each token.
struct Rope {
  const float* cos = nullptr;  // null: no rotation
  const float* sin = nullptr;
  const std::int32_t* positions = nullptr;
};

// Of the arguments of an op.
template <class Args>
Rope rope_of(const Args& args) {
  return {args.cos.f32(), args.sin.f32(), args.positions.i32()};
}

}  // namespace flywheel::cuda
