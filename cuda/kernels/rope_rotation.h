#pragma once

#include "cuda/device/gpu.h"
#include "cuda/kernels/rope.h"

namespace flywheel::cuda {

// Element c of a head turned by the angles of its token; sign -1 turns back. value(c) reads.
template <class F>
__device__ __forceinline__ float rotated(const Rope& rope, std::int64_t token, std::int64_t size,
                                         std::int64_t c, float sign, const F& value) {
  const std::int64_t half = size / 2;
  const std::int64_t at = rope.positions[token] * half + c % half;
  const float cos = rope.cos[at];
  const float sin = rope.sin[at] * sign;
  return c < half ? value(c) * cos - value(c + half) * sin : value(c) * cos + value(c - half) * sin;
}

// Channels m and m + D/2 turned back, by the cosine and the sine of their angle.
__device__ __forceinline__ void turn_back(float& low, float& high, float cos, float sin) {
  const float x = low;
  low = x * cos + high * sin;
  high = high * cos - x * sin;
}

}  // namespace flywheel::cuda
