// Matrices of the types that weights are kept in, as float32 vectors, for each Highway target.
#if defined(FLYWHEEL_CPU_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_WEIGHTS_INL_H
#undef FLYWHEEL_CPU_WEIGHTS_INL_H
#else
#define FLYWHEEL_CPU_WEIGHTS_INL_H
#endif

#include <cstdint>
#include <cstring>

#include "backend/tensor.h"
#include "core/interleaved_rows.h"
#include "cpu/half_values.h"
#include "cpu/simd_loops-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

// Element i of row r lies at row(r) + offset(i); run(p) is what the kRun vectors from there on
// share, whose load(lanes, v) is one of them. Rows of all but FloatWeights are multiples of 32
// elements, and a run begins at a multiple of kRun vectors. InterleavedWeights are different.

constexpr int kVectorLanes = static_cast<int>(hn::MaxLanes(F32()));
constexpr int kBlockVectors = static_cast<int>(kWeightBlock) / kVectorLanes;

class WeightRows {
 public:
  explicit WeightRows(const TensorView& view) : data_(view.data), stride_(view.stride(0)) {}
  std::int64_t stride() const { return stride_; }

 protected:
  const std::byte* data_;
  std::int64_t stride_;  // elements, of Q8_0 and Q8_0x16 bytes
};

class FloatWeights : public WeightRows {
 public:
  static constexpr int kRun = 1;
  struct Run {
    const float* data;
    template <class Lanes>
    HWY_INLINE F32Vector load(const Lanes& lanes, int /*v*/) const {
      return lanes.load(data);
    }
  };

  using WeightRows::WeightRows;
  HWY_INLINE const std::byte* row(std::int64_t r) const { return data_ + offset(r * stride_); }
  static HWY_INLINE std::int64_t offset(std::int64_t i) { return 4 * i; }
  static HWY_INLINE Run run(const std::byte* p) { return {reinterpret_cast<const float*>(p)}; }
};

// 16-bit floats of Highway's type `Half`.
template <class Half>
class ShortWeights : WeightRows {
 public:
  static constexpr int kRun = kBlockVectors;
  struct Run {
    const Half* data;
    template <class Lanes>
    HWY_INLINE F32Vector load(const Lanes& /*lanes*/, int v) const {
      const hn::Rebind<Half, F32> halves;
      return hn::PromoteTo(F32(), hn::LoadU(halves, data + v * kVectorLanes));
    }
  };

  using WeightRows::WeightRows;
  HWY_INLINE const std::byte* row(std::int64_t r) const { return data_ + offset(r * stride_); }
  static HWY_INLINE std::int64_t offset(std::int64_t i) { return 2 * i; }
  static HWY_INLINE Run run(const std::byte* p) { return {reinterpret_cast<const Half*>(p)}; }
};
using Bf16Weights = ShortWeights<hwy::bfloat16_t>;
using HalfWeights = ShortWeights<hwy::float16_t>;

class Q8Weights : WeightRows {
 public:
  static constexpr int kRun = kBlockVectors;
  struct Run {
    const std::int8_t* quants;
    F32Vector scale;
    template <class Lanes>
    HWY_INLINE F32Vector load(const Lanes& /*lanes*/, int v) const {
      const hn::Rebind<std::int32_t, F32> wide;
      const hn::Rebind<std::int8_t, F32> narrow;
      const auto bytes = hn::LoadU(narrow, quants + v * kVectorLanes);
      return hn::Mul(scale, hn::ConvertTo(F32(), hn::PromoteTo(wide, bytes)));
    }
  };

  using WeightRows::WeightRows;
  HWY_INLINE const std::byte* row(std::int64_t r) const { return data_ + r * stride_; }
  static HWY_INLINE std::int64_t offset(std::int64_t i) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(i) / kWeightBlock *
                                     (kScaleBytes + kWeightBlock));
  }
  static HWY_INLINE Run run(const std::byte* p) {
    const Block at = block(p);
    return {at.quants, hn::Set(F32(), at.scale)};
  }

  struct Block {
    const std::int8_t* quants;
    float scale;
  };
  static HWY_INLINE Block block(const std::byte* p) {
    std::uint16_t scale = 0;
    std::memcpy(&scale, p, sizeof scale);
    return {reinterpret_cast<const std::int8_t*>(p + kScaleBytes), kHalfValues[scale]};
  }

 private:
  static constexpr std::int64_t kScaleBytes = 2;
};

// Q8_0x16. The rows of a group are the lanes of vectors.
class InterleavedWeights : WeightRows {
 public:
  using WeightRows::WeightRows;

  // Block k / 32 of the group of rows that r begins.
  HWY_INLINE const std::byte* block(std::int64_t r, std::int64_t k) const {
    return data_ + r * stride_ + k / kWeightBlock * kInterleavedBlockBytes;
  }

  // out[k * stride + row] of a block's columns k and rows.
  static HWY_INLINE void unpack(const std::byte* block, float* out, std::int64_t stride) {
    const hn::Rebind<hwy::float16_t, F32> halves;
    const hn::Rebind<std::int32_t, F32> words;
    const auto sign = hn::Set(words, static_cast<std::int32_t>(0x80808080));
    for (std::int64_t row = 0; row < kInterleavedRows; row += kVectorLanes) {
      const auto* scales = reinterpret_cast<const hwy::float16_t*>(block) + row;
      const auto scale = hn::PromoteTo(F32(), hn::LoadU(halves, scales));
      const std::byte* fours = block + kInterleavedScaleBytes + row * kInterleavedColumns;
      float* to = out + row;
      for (std::int64_t four = 0; four < kWeightBlock / kInterleavedColumns; ++four) {
        const auto* from = reinterpret_cast<const std::int32_t*>(fours + four * kInterleavedRows *
                                                                             kInterleavedColumns);
        const auto x = hn::Xor(hn::LoadU(words, from), sign);
        const auto store = [&](auto integers) HWY_ATTR {
          hn::StoreU(hn::Mul(scale, hn::ConvertTo(F32(), hn::ShiftRight<24>(integers))), F32(), to);
          to += stride;
        };
        store(hn::ShiftLeft<24>(x));
        store(hn::ShiftLeft<16>(x));
        store(hn::ShiftLeft<8>(x));
        store(x);
      }
    }
  }

  HWY_INLINE float element(std::int64_t r, std::int64_t k) const {
    const std::int64_t row = r % kInterleavedRows;
    const std::byte* at = block(r - row, k);
    std::uint16_t scale = 0;
    std::memcpy(&scale, at + 2 * row, sizeof scale);
    const std::int64_t column = k % kWeightBlock;
    const std::int64_t four = column / kInterleavedColumns * kInterleavedRows + row;
    const std::byte integer =
        at[kInterleavedScaleBytes + four * kInterleavedColumns + column % kInterleavedColumns];
    return kHalfValues[scale] * static_cast<float>(std::to_integer<int>(integer) - 128);
  }
};

// A vector of row r from element i on, a multiple of its lanes.
template <class Weights, class Lanes>
HWY_INLINE F32Vector load_weights(const Weights& weights, const Lanes& lanes, std::int64_t r,
                                  std::int64_t i) {
  const std::int64_t v = i / kVectorLanes % Weights::kRun;
  const std::byte* p = weights.row(r) + Weights::offset(i - v * kVectorLanes);
  return Weights::run(p).load(lanes, static_cast<int>(v));
}

// f(weights), of the class above that reads the view's type.
template <class F>
HWY_INLINE void with_weights(const TensorView& view, const F& f) {
  switch (view.dtype) {
    case DType::BF16:
      return f(Bf16Weights(view));
    case DType::F16:
      return f(HalfWeights(view));
    case DType::Q8_0:
      return f(Q8Weights(view));
    case DType::Q8_0x16:
      return f(InterleavedWeights(view));
    default:
      return f(FloatWeights(view));
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
