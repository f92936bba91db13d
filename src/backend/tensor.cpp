#include "backend/tensor.h"

#include "core/error.h"
#include "core/interleaved_rows.h"

namespace flywheel {

bool TensorView::is_contiguous() const {
  std::int64_t expected = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1 && stride(axis) != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

TensorView TensorView::rows(std::int64_t begin, std::int64_t end) const {
  require(shape.rank() > 0 && 0 <= begin && begin <= end && end <= shape[0], ErrorKind::Shape,
          "rows [{}, {}) of a tensor of shape {}", begin, end, shape.to_string());
  require(dtype != DType::Q8_0x16 || begin % kInterleavedRows == 0, ErrorKind::Shape,
          "row {} of q8_0x16 is inside a group", begin);
  TensorView part = *this;
  part.data += begin * stride(0) * size_of(dtype);
  switch (shape.rank()) {
    case 1:
      part.shape = Shape{end - begin};
      break;
    case 2:
      part.shape = Shape{end - begin, shape[1]};
      break;
    case 3:
      part.shape = Shape{end - begin, shape[1], shape[2]};
      break;
    default:
      part.shape = Shape{end - begin, shape[1], shape[2], shape[3]};
      break;
  }
  return part;
}

TensorView TensorView::heads(std::int64_t begin, std::int64_t end) const {
  require(shape.rank() == 3 && 0 <= begin && begin <= end && end <= shape[1], ErrorKind::Shape,
          "heads [{}, {}) of a tensor of shape {}", begin, end, shape.to_string());
  TensorView part = *this;
  part.data += begin * stride(1) * size_of(dtype);
  part.shape = Shape{shape[0], end - begin, shape[2]};
  return part;
}

TensorView TensorView::reshaped(Shape extents) const {
  require(is_contiguous() && extents.elements() == elements(), ErrorKind::Shape,
          "cannot view a tensor of shape {} as {}", shape.to_string(), extents.to_string());
  return TensorView(data, dtype, extents, device);
}

TensorView TensorView::of_weights(void* memory, DType type, Shape extents, DeviceKind where) {
  TensorView view(memory, type, extents, where);
  if (extents.rank() == 2) {
    view.strides[0] = bytes_of(type, extents[1]) / size_of(type);
  }
  return view;
}

TensorView TensorView::heads_first(void* memory, DType type, std::int64_t tokens,
                                   std::int64_t heads, std::int64_t head_dim, DeviceKind where) {
  TensorView view(memory, type, Shape{tokens, heads, head_dim}, where);
  view.strides = {head_dim, tokens * head_dim, 1, 0};
  return view;
}

}  // namespace flywheel
