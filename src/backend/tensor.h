#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "core/shape.h"

namespace flywheel {

enum class DeviceKind : std::uint8_t { Cpu, Cuda };

// A typed window onto memory that somebody else owns. The innermost axis is contiguous; outer axes
// may have any stride (in elements). An empty view (data == nullptr) stands for an absent optional
// argument.
struct TensorView {
  std::byte* data = nullptr;
  DType dtype = DType::F32;
  DeviceKind device = DeviceKind::Cpu;
  Shape shape;
  std::array<std::int64_t, Shape::kMaxRank> strides{};

  TensorView() = default;
  // Row-major and contiguous.
  TensorView(void* memory, DType type, Shape extents, DeviceKind where = DeviceKind::Cpu)
      : data(static_cast<std::byte*>(memory)), dtype(type), device(where), shape(extents) {
    std::int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      strides[static_cast<unsigned>(axis)] = stride;
      stride *= shape[axis];
    }
  }

  // A [rows, columns] matrix of whole rows of a type that weights are kept in.
  static TensorView of_weights(void* memory, DType type, Shape extents,
                               DeviceKind where = DeviceKind::Cpu);

  explicit operator bool() const { return data != nullptr; }
  std::int64_t stride(int axis) const { return strides[static_cast<unsigned>(axis)]; }
  std::int64_t elements() const { return shape.elements(); }
  std::int64_t bytes() const { return bytes_of(dtype, elements()); }
  bool is_contiguous() const;

  float* f32() const { return reinterpret_cast<float*>(data); }
  double* f64() const { return reinterpret_cast<double*>(data); }
  std::int32_t* i32() const { return reinterpret_cast<std::int32_t*>(data); }

  // Rows [begin, end) of the outermost axis.
  TensorView rows(std::int64_t begin, std::int64_t end) const;
  // Heads [begin, end) of [T, H, D].
  TensorView heads(std::int64_t begin, std::int64_t end) const;
  // Another row-major shape over the same elements; needs is_contiguous().
  TensorView reshaped(Shape extents) const;
  // [T, H, D] as seen by attention over head-major memory [H, T, D].
  static TensorView heads_first(void* memory, DType type, std::int64_t tokens, std::int64_t heads,
                                std::int64_t head_dim, DeviceKind where = DeviceKind::Cpu);
};

}  // namespace flywheel
