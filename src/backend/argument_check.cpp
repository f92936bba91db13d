#include "backend/argument_check.h"

#include <string_view>

#include "core/error.h"

namespace flywheel {
namespace {

// The bytes from the first to behind the last element.
std::int64_t spanned_bytes(const TensorView& view) {
  std::int64_t last = 0;
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    last += (view.shape[axis] - 1) * view.stride(axis);
  }
  return (last + 1) * size_of(view.dtype);
}

// Interleaved views of one buffer (q, k and v of a fused projection) do not count as overlapping.
bool overlap(const TensorView& a, const TensorView& b) {
  if (a.elements() == 0 || b.elements() == 0) return false;
  if (a.data == b.data) return true;
  if (!a.is_contiguous() || !b.is_contiguous()) return false;
  return a.data < b.data + spanned_bytes(b) && b.data < a.data + spanned_bytes(a);
}

const char* name_of(DeviceKind device) {
  return device == DeviceKind::Cpu ? "CPU" : "CUDA";
}

}  // namespace

void ArgumentCheck::rank(const char* name, const TensorView& view, int expected) const {
  require(static_cast<bool>(view), ErrorKind::Shape, "{}: {} is missing", op_, name);
  require(view.shape.rank() == expected, ErrorKind::Shape, "{}: {} is {}; expected {} axes", op_,
          name, view.shape.to_string(), expected);
}

void ArgumentCheck::type_like(const char* name, const TensorView& view) {
  type_ = view.dtype == DType::BF16 ? DType::BF16 : DType::F32;
  require(type_ == DType::F32 || device_ != DeviceKind::Cpu, ErrorKind::Shape,
          "{}: {} is bf16; the CPU backend computes in f32", op_, name);
}

void ArgumentCheck::allow_in_place(const char* destination, const char* source) {
  in_place_.at(in_place_count_++) = {destination, source};
}

void ArgumentCheck::tensor(const char* name, const TensorView& view, const Shape& shape,
                           DType dtype) const {
  require(static_cast<bool>(view), ErrorKind::Shape, "{}: {} is missing", op_, name);
  require(view.shape == shape, ErrorKind::Shape, "{}: {} is {}; expected {} to fit {}", op_, name,
          view.shape.to_string(), shape.to_string(), leader_ ? leader_ : "the op");
  require(view.dtype == dtype, ErrorKind::Shape, "{}: {} is {}; expected {}", op_, name,
          name_of(view.dtype), name_of(dtype));
  require(view.device == device_, ErrorKind::Shape, "{}: {} is in {} memory; expected {}", op_,
          name, name_of(view.device), name_of(device_));
  const int last = shape.rank() - 1;
  require(last < 0 || shape[last] <= 1 || view.stride(last) == 1, ErrorKind::Shape,
          "{}: {} has stride {} on its last axis; expected 1", op_, name,
          last < 0 ? 0 : view.stride(last));
}

void ArgumentCheck::contiguous(const char* name, const TensorView& view) const {
  require(view.is_contiguous(), ErrorKind::Shape, "{}: {} is strided; expected it contiguous", op_,
          name);
}

void ArgumentCheck::no_overlap(const char* name, const TensorView& view) const {
  for (unsigned i = 0; i < destination_count_; ++i) {
    const Destination& destination = destinations_[i];
    if (!overlap(destination.view, view)) continue;
    bool allowed = false;
    for (unsigned j = 0; j < in_place_count_; ++j) {
      allowed |= std::string_view(in_place_[j].destination) == destination.name &&
                 std::string_view(in_place_[j].source) == name &&
                 destination.view.data == view.data;
    }
    require(allowed, ErrorKind::Shape, "{}: {} overlaps {}; expected memory of its own", op_,
            destination.name, name);
  }
}

void ArgumentCheck::add_destination(const char* name, const TensorView& view) {
  no_overlap(name, view);
  destinations_.at(destination_count_++) = {name, view};
}

void ArgumentCheck::out(const char* name, const TensorView& view, Shape shape, DType dtype) {
  tensor(name, view, shape, dtype);
  contiguous(name, view);
  add_destination(name, view);
}

void ArgumentCheck::in(const char* name, const TensorView& view, Shape shape, DType dtype) {
  tensor(name, view, shape, dtype);
  contiguous(name, view);
  no_overlap(name, view);
}

void ArgumentCheck::strided_out(const char* name, const TensorView& view, Shape shape,
                                DType dtype) {
  tensor(name, view, shape, dtype);
  add_destination(name, view);
}

void ArgumentCheck::strided_in(const char* name, const TensorView& view, Shape shape) {
  tensor(name, view, shape, type_);
  no_overlap(name, view);
}

void ArgumentCheck::weights(const char* name, const TensorView& view, Shape shape) {
  const bool kept = view.dtype == DType::BF16 || view.dtype == DType::F16 ||
                    view.dtype == DType::Q8_0 || view.dtype == DType::Q8_0x16;
  if (!kept || view.device != DeviceKind::Cpu) return strided_in(name, view, shape);
  tensor(name, view, shape, view.dtype);
  that(shape.rank() == 2 && shape[1] % kWeightBlock == 0,
       "the rows of 16-bit and 8-bit weights are multiples of 32 elements");
  no_overlap(name, view);
}

void ArgumentCheck::absent(const char* name, const TensorView& view, const char* reason) const {
  require(!view, ErrorKind::Shape, "{}: {} is given; expected none {}", op_, name, reason);
}

void ArgumentCheck::that(bool condition, const char* what) const {
  require(condition, ErrorKind::Shape, "{}: {}", op_, what);
}

}  // namespace flywheel
