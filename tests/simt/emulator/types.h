#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Host stand-ins for CUDA's vector types and bfloat16, as far as kernels use them. Global names,
// because CUDA has them there.
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
  constexpr std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};
struct uint3 {
  unsigned x, y, z;
};

namespace simt {

template <class T>
struct alignas(2 * sizeof(T)) Vector2 {
  T x, y;
};
template <class T>
struct alignas(4 * sizeof(T)) Vector4 {
  T x, y, z, w;
};

// A type of kBytes that the compiler reads and writes in one access.
template <int kBytes>
struct AccessOf;
template <>
struct AccessOf<2> {
  using Type = std::uint16_t __attribute__((may_alias));
};
template <>
struct AccessOf<4> {
  using Type = std::uint32_t __attribute__((may_alias));
};
template <>
struct AccessOf<8> {
  using Type = std::uint64_t __attribute__((may_alias));
};
template <>
struct AccessOf<16> {
  using Type = int __attribute__((vector_size(16), may_alias));
};

// Round to nearest even; every NaN becomes 0x7fff, as cvt.rn.bf16.f32 does.
constexpr std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}
constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace simt

using float2 = simt::Vector2<float>;
using float4 = simt::Vector4<float>;
using int2 = simt::Vector2<int>;
using int4 = simt::Vector4<int>;
using uint2 = simt::Vector2<unsigned>;
using uint4 = simt::Vector4<unsigned>;

struct alignas(2) __nv_bfloat16 {
  std::uint16_t bits;
};
constexpr __nv_bfloat16 __float2bfloat16_rn(float value) {
  return {simt::round_to_bf16(value)};
}
constexpr float __bfloat162float(__nv_bfloat16 value) {
  return simt::bf16_to_float(value.bits);
}
constexpr std::uint16_t __bfloat16_as_ushort(__nv_bfloat16 value) {
  return value.bits;
}
constexpr __nv_bfloat16 __ushort_as_bfloat16(std::uint16_t bits) {
  return {bits};
}
