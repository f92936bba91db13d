#pragma once

#include <cstdint>
#include <string_view>

namespace flywheel {

enum class DType : std::uint8_t { F32, BF16, F64, I32 };

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::BF16:
      return 2;
    case DType::F64:
      return 8;
    case DType::F32:
    case DType::I32:
      return 4;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return "f32";
    case DType::BF16:
      return "bf16";
    case DType::F64:
      return "f64";
    case DType::I32:
      return "i32";
  }
  return "?";
}

}  // namespace flywheel
