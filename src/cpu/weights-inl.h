// Matrices of the types that weights are kept in, as float32 vectors, for each Highway target.
#if defined(FLYWHEEL_CPU_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_WEIGHTS_INL_H
#undef FLYWHEEL_CPU_WEIGHTS_INL_H
#else
#define FLYWHEEL_CPU_WEIGHTS_INL_H
#endif

#include <cstdint>

#include "backend/tensor.h"
#include "cpu/simd_loops-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

// Each has load(lanes, row, i), a vector from element i of a row on, and prefetch() of it. Rows of
// all but FloatWeights are multiples of 32 elements, i of the vector's lanes.

class FloatWeights {
 public:
  explicit FloatWeights(const TensorView& view) : data_(view.f32()), stride_(view.stride(0)) {}
  template <class Lanes>
  HWY_INLINE F32Vector load(const Lanes& lanes, std::int64_t row, std::int64_t i) const {
    return lanes.load(data_ + row * stride_ + i);
  }
  HWY_INLINE void prefetch(std::int64_t row, std::int64_t i) const {
    hwy::Prefetch(data_ + row * stride_ + i);
  }

 private:
  const float* data_;
  std::int64_t stride_;
};

// 16-bit floats of Highway's type `Half`.
template <class Half>
class ShortWeights {
 public:
  explicit ShortWeights(const TensorView& view)
      : data_(reinterpret_cast<const Half*>(view.data)), stride_(view.stride(0)) {}
  template <class Lanes>
  HWY_INLINE F32Vector load(const Lanes& /*lanes*/, std::int64_t row, std::int64_t i) const {
    const hn::Rebind<Half, F32> halves;
    return hn::PromoteTo(F32(), hn::LoadU(halves, data_ + row * stride_ + i));
  }
  HWY_INLINE void prefetch(std::int64_t row, std::int64_t i) const {
    hwy::Prefetch(data_ + row * stride_ + i);
  }

 private:
  const Half* data_;
  std::int64_t stride_;
};
using Bf16Weights = ShortWeights<hwy::bfloat16_t>;
using HalfWeights = ShortWeights<hwy::float16_t>;

class Q8Weights {
 public:
  explicit Q8Weights(const TensorView& view) : data_(view.data), stride_(view.stride(0)) {}
  template <class Lanes>
  HWY_INLINE F32Vector load(const Lanes& /*lanes*/, std::int64_t row, std::int64_t i) const {
    const std::byte* block = block_of(row, i);
    const hn::Rebind<std::int32_t, F32> wide;
    const hn::Rebind<std::int8_t, F32> narrow;
    const auto* quants = reinterpret_cast<const std::int8_t*>(block + kScaleBytes) + i % kBlock;
    const auto values = hn::ConvertTo(F32(), hn::PromoteTo(wide, hn::LoadU(narrow, quants)));
    return hn::Mul(hn::Set(F32(), scale_of(block)), values);
  }
  HWY_INLINE void prefetch(std::int64_t row, std::int64_t i) const {
    hwy::Prefetch(block_of(row, i));
  }

 private:
  static constexpr std::int64_t kBlock = 32;
  static constexpr std::int64_t kScaleBytes = 2;

  HWY_INLINE const std::byte* block_of(std::int64_t row, std::int64_t i) const {
    return data_ + row * stride_ + i / kBlock * (kScaleBytes + kBlock);
  }
  static HWY_INLINE float scale_of(const std::byte* block) {
    const hn::CappedTag<float, 4> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> halves;
    // The first of four lanes: a block has more bytes than they.
    const auto scale = hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(block));
    return hn::GetLane(hn::PromoteTo(d, scale));
  }

  const std::byte* data_;
  std::int64_t stride_;
};

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
