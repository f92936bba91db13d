// The inner parts of gemm.cpp for each Highway target: packing into panels and the register-tiled
// kernel.
#if defined(FLYWHEEL_CPU_GEMM_KERNEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_GEMM_KERNEL_INL_H
#undef FLYWHEEL_CPU_GEMM_KERNEL_INL_H
#else
#define FLYWHEEL_CPU_GEMM_KERNEL_INL_H
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile of C is kTileRows x kTileColumns: two vectors a row, as many rows as the registers hold.
using GemmTag = hn::ScalableTag<float>;
using GemmVector = hn::Vec<GemmTag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(GemmTag()));
constexpr int kTileColumns = 2 * kLanes;
constexpr int kTileRows = kLanes >= 16 ? 14 : 6;

// out[k * kWidth + r] = x[r * stride + k] for 4 rows and `depth` columns.
template <int kWidth>
HWY_INLINE void pack_four_rows(const float* x, std::int64_t stride, std::int64_t depth,
                               float* out) {
  const hn::CappedTag<float, 4> d4;
  const hn::Repartition<double, decltype(d4)> pairs;
  std::int64_t k = 0;
  for (; k + 4 <= depth; k += 4, x += 4, out += 4 * kWidth) {
    const auto r0 = hn::LoadU(d4, x);
    const auto r1 = hn::LoadU(d4, x + stride);
    const auto r2 = hn::LoadU(d4, x + 2 * stride);
    const auto r3 = hn::LoadU(d4, x + 3 * stride);
    const auto a = hn::BitCast(pairs, hn::InterleaveLower(d4, r0, r1));  // 00 10 01 11
    const auto b = hn::BitCast(pairs, hn::InterleaveLower(d4, r2, r3));
    const auto c = hn::BitCast(pairs, hn::InterleaveUpper(d4, r0, r1));
    const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d4, r2, r3));
    hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(pairs, a, b)), d4, out);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(pairs, a, b)), d4, out + kWidth);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(pairs, c, e)), d4, out + 2 * kWidth);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(pairs, c, e)), d4, out + 3 * kWidth);
  }
  for (; k < depth; ++k, ++x, out += kWidth) {
    for (int r = 0; r < 4; ++r) out[r] = x[r * stride];
  }
}

// out[k * kWidth + r] = x[k * stride + r] for `rows` <= kWidth neighbours; the rest is 0.
template <int kWidth>
HWY_INLINE void pack_columns(const float* x, std::int64_t stride, std::int64_t rows,
                             std::int64_t depth, float* out) {
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 2> d2;
  if (rows == kWidth) {
    for (std::int64_t k = 0; k < depth; ++k, x += stride, out += kWidth) {
      int r = 0;
      for (; r + 4 <= kWidth; r += 4) hn::StoreU(hn::LoadU(d4, x + r), d4, out + r);
      if (r < kWidth) hn::StoreU(hn::LoadU(d2, x + r), d2, out + r);
    }
    return;
  }
  for (std::int64_t k = 0; k < depth; ++k, x += stride, out += kWidth) {
    for (int r = 0; r < kWidth; ++r) out[r] = r < rows ? x[r] : 0.0F;
  }
}

// One panel of kWidth rows of a matrix with element (r, k) at x[r * row_stride + k * k_stride], one
// of the strides 1: out[k * kWidth + r]; rows from `rows` on are 0.
template <int kWidth>
HWY_INLINE void pack_panel(const float* x, std::int64_t row_stride, std::int64_t k_stride,
                           std::int64_t rows, std::int64_t depth, float* out) {
  if (row_stride == 1) {
    pack_columns<kWidth>(x, k_stride, rows, depth, out);
    return;
  }
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    pack_four_rows<kWidth>(x + r * row_stride, row_stride, depth, out + r);
  }
  for (; r < rows; ++r) {
    for (std::int64_t k = 0; k < depth; ++k) out[k * kWidth + r] = x[r * row_stride + k];
  }
  for (; r < kWidth; ++r) {
    for (std::int64_t k = 0; k < depth; ++k) out[k * kWidth + r] = 0.0F;
  }
}

// What is added to the product of the panels before it is stored.
enum class Addend { kNothing, kOutput, kBias };

// c[kRows x kTileColumns] = panel a * panel b + addend. A full tile needs the whole width of c.
template <int kRows, Addend kAddend>
HWY_INLINE void multiply_panels(std::int64_t depth, const float* HWY_RESTRICT a,
                                const float* HWY_RESTRICT b, const float* bias,
                                float* HWY_RESTRICT c, std::int64_t stride) {
  const GemmTag d;
  GemmVector left[kRows];
  GemmVector right[kRows];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    left[r] = hn::Zero(d);
    right[r] = hn::Zero(d);
    hwy::Prefetch(c + r * stride);
    hwy::Prefetch(c + r * stride + kTileColumns - 1);
  }
  constexpr int kAhead = 8 * kTileColumns;
  constexpr int kCacheLine = 16;
  HWY_UNROLL(4)
  for (std::int64_t k = 0; k < depth; ++k) {
    for (int at = 0; at < kTileColumns; at += kCacheLine) hwy::Prefetch(b + kAhead + at);
    const auto b0 = hn::Load(d, b);
    const auto b1 = hn::Load(d, b + kLanes);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      const auto x = hn::Set(d, a[r]);
      left[r] = hn::MulAdd(x, b0, left[r]);
      right[r] = hn::MulAdd(x, b1, right[r]);
    }
    a += kTileRows;
    b += kTileColumns;
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    float* row = c + r * stride;
    if constexpr (kAddend != Addend::kNothing) {
      const float* addend = kAddend == Addend::kOutput ? row : bias;
      left[r] = hn::Add(left[r], hn::LoadU(d, addend));
      right[r] = hn::Add(right[r], hn::LoadU(d, addend + kLanes));
    }
    hn::StoreU(left[r], d, row);
    hn::StoreU(right[r], d, row + kLanes);
  }
}

// multiply_panels for `rows` in [1, kTileRows].
template <Addend kAddend, int kRows = kTileRows>
HWY_INLINE void multiply_rows(std::int64_t rows, std::int64_t depth, const float* a, const float* b,
                              const float* bias, float* c, std::int64_t stride) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      multiply_rows<kAddend, kRows - 1>(rows, depth, a, b, bias, c, stride);
      return;
    }
  }
  multiply_panels<kRows, kAddend>(depth, a, b, bias, c, stride);
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
