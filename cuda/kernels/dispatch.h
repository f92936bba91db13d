#pragma once

#include <initializer_list>

#include "backend/tensor.h"
#include "cuda/device/gpu.h"

namespace flywheel::cuda {

template <class T>
T* pointer_to(const TensorView& view) {
  return reinterpret_cast<T*>(view.data);
}

inline unsigned blocks_for(std::int64_t items, std::int64_t items_a_block) {
  return static_cast<unsigned>((items + items_a_block - 1) / items_a_block);
}

// Whether rows of `width` elements can be walked in accesses of 16 bytes.
inline bool can_pack(std::int64_t width, std::initializer_list<const TensorView*> views) {
  for (const TensorView* view : views) {
    if (reinterpret_cast<std::uintptr_t>(view->data) % 16 != 0) return false;
    if (*view && width * size_of(view->dtype) % 16 != 0) return false;
  }
  return true;
}

// Calls f.operator()<T, kCount>() with the dtype of an activation and the elements of an access.
template <class F>
void for_dtype(DType dtype, bool packed, const F& f) {
  if (dtype == DType::BF16) {
    packed ? f.template operator()<bf16, kPack<bf16>>() : f.template operator()<bf16, 1>();
  } else {
    packed ? f.template operator()<float, kPack<float>>() : f.template operator()<float, 1>();
  }
}

// f.operator()<T, kSize>() with the type and the least size that holds a head.
template <class F>
void for_head(DType dtype, std::int64_t size, const F& f) {
  const auto with_type = [&]<int kSize>() {
    dtype == DType::BF16 ? f.template operator()<bf16, kSize>()
                         : f.template operator()<float, kSize>();
  };
  if (size <= 64) return with_type.template operator()<64>();
  if (size <= 128) return with_type.template operator()<128>();
  with_type.template operator()<256>();
}

}  // namespace flywheel::cuda
