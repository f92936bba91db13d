#pragma once

#include <array>
#include <cstdint>

#include "backend/backend.h"

namespace flywheel {

// Checks the arguments of one call of an op and remembers its destinations, so that no source may
// overlap them. Name destinations before sources. Every fault throws Error Shape:
// "rms_norm_forward: out is [3, 8]; expected [4, 8] to fit x".
//
// Tensors that are named without a type are of the op's: F32, or on a GPU also BF16.
class ArgumentCheck {
 public:
  ArgumentCheck(const char* op, const Backend& backend) : op_(op), device_(backend.device()) {}

  // The extents of a tensor that the others must fit. The first one named gives the op its type.
  template <int kRank>
  std::array<std::int64_t, kRank> dims(const char* name, const TensorView& view) {
    rank(name, view, kRank);
    if (!leader_) {
      leader_ = name;
      type_like(name, view);
    }
    std::array<std::int64_t, kRank> extents;
    for (int axis = 0; axis < kRank; ++axis)
      extents[static_cast<unsigned>(axis)] = view.shape[axis];
    return extents;
  }

  // Gives the op the type of this tensor.
  void type_like(const char* name, const TensorView& view);
  DType type() const { return type_; }

  // Allows `source` to be the very memory of `destination`. Call before either is named.
  void allow_in_place(const char* destination, const char* source);

  // Contiguous tensors.
  void out(const char* name, const TensorView& view, Shape shape) { out(name, view, shape, type_); }
  void in(const char* name, const TensorView& view, Shape shape) { in(name, view, shape, type_); }
  void out(const char* name, const TensorView& view, Shape shape, DType dtype);
  void in(const char* name, const TensorView& view, Shape shape, DType dtype);
  // The same with any strides; the innermost axis is contiguous.
  void strided_out(const char* name, const TensorView& view, Shape shape) {
    strided_out(name, view, shape, type_);
  }
  void strided_out(const char* name, const TensorView& view, Shape shape, DType dtype);
  void strided_in(const char* name, const TensorView& view, Shape shape);
  // A matrix of any type that weights are kept in, on the CPU; elsewhere of the op's.
  void weights(const char* name, const TensorView& view, Shape shape);
  // An optional argument that must not be given: "bias is given; expected none with accumulate".
  void absent(const char* name, const TensorView& view, const char* reason) const;

  // Any other condition: "op: what".
  void that(bool condition, const char* what) const;

 private:
  struct Destination {
    const char* name;
    TensorView view;
  };
  struct Pair {
    const char* destination;
    const char* source;
  };

  void rank(const char* name, const TensorView& view, int expected) const;
  void tensor(const char* name, const TensorView& view, const Shape& shape, DType dtype) const;
  void contiguous(const char* name, const TensorView& view) const;
  void no_overlap(const char* name, const TensorView& view) const;
  void add_destination(const char* name, const TensorView& view);

  const char* op_;
  DeviceKind device_;
  const char* leader_ = nullptr;
  DType type_ = DType::F32;
  std::array<Destination, 5> destinations_{};
  unsigned destination_count_ = 0;
  std::array<Pair, 2> in_place_{};
  unsigned in_place_count_ = 0;
};

}  // namespace flywheel
