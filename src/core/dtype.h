#pragma once

#include <cstdint>
#include <string_view>

namespace flywheel {

// Q8_0 is ggml's: a row is blocks of 34 bytes, each a scale in F16 and 32 signed integers. Views of
// it count strides in bytes.
enum class DType : std::uint8_t { F32, BF16, F16, Q8_0, F64, I32 };

// Bytes of an element, of Q8_0 the unit of its strides.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::Q8_0:
      return 1;
    case DType::BF16:
    case DType::F16:
      return 2;
    case DType::F64:
      return 8;
    case DType::F32:
    case DType::I32:
      return 4;
  }
  return 0;
}

// Bytes of a row of a matrix.
constexpr std::int64_t row_bytes(DType dtype, std::int64_t elements) {
  return dtype == DType::Q8_0 ? elements / 32 * 34 : elements * size_of(dtype);
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "f32";
    case DType::BF16:
      return "bf16";
    case DType::F16:
      return "f16";
    case DType::Q8_0:
      return "q8_0";
    case DType::F64:
      return "f64";
    case DType::I32:
      return "i32";
  }
  return "?";
}

}  // namespace flywheel
