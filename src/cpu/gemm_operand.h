#pragma once

#include <cstdint>

namespace flywheel::cpu {

// A matrix with element (i, k) at data[i * stride + k * k_stride]; one of the strides is 1.
struct Operand {
  const float* data;
  std::int64_t stride;
  std::int64_t k_stride;

  // Without its first i and k.
  Operand from(std::int64_t i, std::int64_t k) const {
    return {data + i * stride + k * k_stride, stride, k_stride};
  }
};

// The part of B that becomes one packed panel: `columns` of its columns from `first` on, `depth` of
// its rows from k on. Transposed, its columns are the matrix's rows.
struct PanelOfB {
  bool transposed;
  std::int64_t first, columns;
  std::int64_t k, depth;

  // Where it begins in the matrix.
  std::int64_t row() const { return transposed ? first : k; }
  std::int64_t column() const { return transposed ? k : first; }

  // Without its first columns and rows.
  PanelOfB from(std::int64_t column, std::int64_t row) const {
    return {transposed, first + column, columns - column, k + row, depth - row};
  }
};

// A part of the output of at most a kernel's rows and columns.
struct TileOfC {
  float* c;
  std::int64_t stride;
  std::int64_t rows, columns;
  const float* bias;  // of its columns, or null
};

// What is added to a product of panels before it is stored.
enum class Addend { kNothing, kOutput, kBias };

}  // namespace flywheel::cpu
