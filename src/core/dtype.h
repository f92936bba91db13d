#pragma once

#include <cstdint>
#include <string_view>

namespace flywheel {

// Q8_0 is ggml's: a row is blocks of 34 bytes, each a scale in F16 and 32 signed integers. Q8_0x16
// has the same bytes, but sixteen rows side by side (interleaved_rows.h): a view of it begins with
// a group of rows, and the memory behind the last one is a whole group. Views of both count strides
// in bytes.
enum class DType : std::uint8_t { F32, BF16, F16, Q8_0, Q8_0x16, F64, I32 };

// Bytes of an element, of Q8_0 and Q8_0x16 the unit of their strides.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::Q8_0:
    case DType::Q8_0x16:
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

// Rows of weights in F16, BF16, Q8_0 and Q8_0x16 are whole blocks of so many elements.
inline constexpr std::int64_t kWeightBlock = 32;

// Of so many elements; of Q8_0 and Q8_0x16 whole blocks.
constexpr std::int64_t bytes_of(DType dtype, std::int64_t elements) {
  const bool quantized = dtype == DType::Q8_0 || dtype == DType::Q8_0x16;
  return quantized ? elements / kWeightBlock * (kWeightBlock + 2) : elements * size_of(dtype);
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
    case DType::Q8_0x16:
      return "q8_0x16";
    case DType::F64:
      return "f64";
    case DType::I32:
      return "i32";
  }
  return "?";
}

}  // namespace flywheel
