// The inner parts of gemm.cpp for each Highway target: packing into panels and the register-tiled
// kernel.
#if defined(FLYWHEEL_CPU_GEMM_KERNEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_GEMM_KERNEL_INL_H
#undef FLYWHEEL_CPU_GEMM_KERNEL_INL_H
#else
#define FLYWHEEL_CPU_GEMM_KERNEL_INL_H
#endif

#include <cstdint>

#include "cpu/gemm_operand.h"
#include "cpu/simd_loops-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

// A tile of C is kTileRows x kTileColumns: its sums fill the registers beside one row of B and one
// element of A.
using GemmTag = hn::ScalableTag<float>;
using GemmVector = hn::Vec<GemmTag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(GemmTag()));
constexpr int kTileVectors = kLanes >= 16 ? 3 : 2;
constexpr int kTileColumns = kTileVectors * kLanes;
constexpr int kTileRows = kLanes >= 16 ? 8 : 6;

// The four floats at `x` and, for eight rows, those at `upper`.
HWY_INLINE auto load_rows(hn::CappedTag<float, 4> d, const float* x, const float* /*upper*/) {
  return hn::LoadU(d, x);
}
HWY_INLINE auto load_rows(hn::CappedTag<float, 8> d, const float* x, const float* upper) {
  const hn::Half<decltype(d)> half;
  return hn::Combine(d, hn::LoadU(half, upper), hn::LoadU(half, x));
}

// out[k * kWidth + r] = x[r * stride + k] for kRows (4 or 8) rows and `depth` columns: transposes
// 4 x 4 blocks, the two of eight rows side by side.
template <int kRows, int kWidth>
HWY_INLINE void pack_rows(const float* x, std::int64_t stride, std::int64_t depth, float* out) {
  const hn::CappedTag<float, kRows> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const float* upper = x + 4 * stride;
  std::int64_t k = 0;
  for (; k + 4 <= depth; k += 4, out += 4 * kWidth) {
    const auto r0 = load_rows(d, x + k, upper + k);
    const auto r1 = load_rows(d, x + stride + k, upper + stride + k);
    const auto r2 = load_rows(d, x + 2 * stride + k, upper + 2 * stride + k);
    const auto r3 = load_rows(d, x + 3 * stride + k, upper + 3 * stride + k);
    const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));  // 00 10 01 11
    const auto b = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
    const auto c = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
    const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, a, b)), d, out);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, a, b)), d, out + kWidth);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, c, e)), d, out + 2 * kWidth);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, c, e)), d, out + 3 * kWidth);
  }
  for (; k < depth; ++k, out += kWidth) {
    for (int r = 0; r < kRows; ++r) out[r] = x[r * stride + k];
  }
}

// out[k * kWidth + r] = x[k * stride + r] for `rows` <= kWidth neighbours; the rest is 0.
template <int kWidth>
HWY_INLINE void pack_columns(const float* x, std::int64_t stride, std::int64_t rows,
                             std::int64_t depth, float* out) {
  constexpr int kStep = kWidth % kLanes == 0 ? kLanes : kWidth % 8 == 0 ? 8 : 2;
  constexpr int kAhead = 12;  // the stride defeats the hardware's prefetching
  const hn::CappedTag<float, kStep> d;
  if (rows == kWidth) {
    for (std::int64_t k = 0; k < depth; ++k, x += stride, out += kWidth) {
      for (int r = 0; r < kWidth; r += kStep) {
        hwy::Prefetch(x + kAhead * stride + r);
        hn::StoreU(hn::LoadU(d, x + r), d, out + r);
      }
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
  for (; r + 8 <= rows; r += 8) {
    pack_rows<8, kWidth>(x + r * row_stride, row_stride, depth, out + r);
  }
  if (r + 4 <= rows) {
    pack_rows<4, kWidth>(x + r * row_stride, row_stride, depth, out + r);
    r += 4;
  }
  for (; r < rows; ++r) {
    for (std::int64_t k = 0; k < depth; ++k) out[k * kWidth + r] = x[r * row_stride + k];
  }
  for (; r < kWidth; ++r) {
    for (std::int64_t k = 0; k < depth; ++k) out[k * kWidth + r] = 0.0F;
  }
}

constexpr int kCacheLine = 16;        // floats
constexpr int kStepsPerPrefetch = 8;  // of `next` in multiply_tile

// c[kTileRows x kVectors vectors] = panel a * panel b + addend. It also asks for the cache lines
// from `next` on, one every kStepsPerPrefetch of `depth`.
template <int kVectors, Addend kAddend>
HWY_INLINE void multiply_tile(std::int64_t depth, const float* HWY_RESTRICT a,
                              const float* HWY_RESTRICT b, const float* bias, float* HWY_RESTRICT c,
                              std::int64_t stride, const float* next) {
  const GemmTag d;
  GemmVector sums[kTileRows][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < kTileRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
    for (int at = 0; at < kVectors * kLanes; at += kCacheLine) hwy::Prefetch(c + r * stride + at);
    hwy::Prefetch(c + r * stride + kVectors * kLanes - 1);
  }
  constexpr int kAhead = 4 * kTileColumns;
  const auto step = [&]() HWY_ATTR {
    for (int at = 0; at < kVectors * kLanes; at += kCacheLine) hwy::Prefetch(b + kAhead + at);
    GemmVector row[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) row[v] = hn::Load(d, b + v * kLanes);
    HWY_UNROLL(16)
    for (int r = 0; r < kTileRows; ++r) {
      const auto x = hn::Set(d, a[r]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(x, row[v], sums[r][v]);
    }
    a += kTileRows;
    b += kTileColumns;
  };
  std::int64_t k = 0;
  for (; k + kStepsPerPrefetch <= depth; k += kStepsPerPrefetch) {
    hwy::Prefetch(next);
    next += kCacheLine;
    HWY_UNROLL(4)
    for (int i = 0; i < kStepsPerPrefetch; ++i) step();
  }
  for (; k < depth; ++k) step();
  HWY_UNROLL(16)
  for (int r = 0; r < kTileRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      float* out = c + r * stride + v * kLanes;
      auto sum = sums[r][v];
      if constexpr (kAddend == Addend::kOutput) sum = hn::Add(sum, hn::LoadU(d, out));
      if constexpr (kAddend == Addend::kBias) sum = hn::Add(sum, hn::LoadU(d, bias + v * kLanes));
      hn::StoreU(sum, d, out);
    }
  }
}

// Stores sums[r * width + j], the addend added, as the tile of C.
template <Addend kAddend>
void store_sums(const float* sums, std::int64_t width, const TileOfC& tile) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    float* c = tile.c + r * tile.stride;
    for_vectors(tile.columns, [&](std::int64_t j, auto lanes) HWY_ATTR {
      auto sum = lanes.load(sums + r * width + j);
      if constexpr (kAddend == Addend::kOutput) sum = hn::Add(sum, lanes.load(c + j));
      if constexpr (kAddend == Addend::kBias) sum = hn::Add(sum, lanes.load(tile.bias + j));
      lanes.store(sum, c + j);
    });
  }
}

// The kernel on the target's vectors.
struct VectorKernel {
  static constexpr bool kWide = kLanes >= 16;
  static constexpr std::int64_t kRows = kTileRows;
  static constexpr std::int64_t kColumns = kTileColumns;
  static constexpr std::int64_t kDepth = kWide ? 384 : 256;                    // K of a block
  static constexpr std::int64_t kBlockRows = 24 * kRows;                       // of A
  static constexpr std::int64_t kBlockColumns = (kWide ? 48 : 96) * kColumns;  // of packed B
  // Of A, in a task: fewer would not pay for loading a panel of B.
  static constexpr std::int64_t kFewestPanels = 6;

  // What a thread holds while it multiplies.
  struct Session {};

  static constexpr std::int64_t a_panel_floats(std::int64_t depth) { return kRows * depth; }
  static constexpr std::int64_t b_panel_floats(std::int64_t depth) { return kColumns * depth; }
  static constexpr std::int64_t prefetched_floats(std::int64_t depth) {
    return depth / kStepsPerPrefetch * kCacheLine;
  }

  static void pack_a(const Operand& a, std::int64_t rows, std::int64_t depth, float* out) {
    pack_panel<kTileRows>(a.data, a.stride, a.k_stride, rows, depth, out);
  }
  static void pack_b(const Operand& b, std::int64_t columns, std::int64_t depth, float* out) {
    pack_panel<kTileColumns>(b.data, b.stride, b.k_stride, columns, depth, out);
  }

  // Panel a times panel b. `next` is what will be read soon: it asks for prefetched_floats().
  template <Addend kAddend>
  static void multiply(std::int64_t depth, const float* a, const float* b, const TileOfC& tile,
                       const float* next) {
    if (tile.rows == kRows && tile.columns % kLanes == 0) {
      const auto multiply_into = tile.columns == kColumns ? multiply_tile<kTileVectors, kAddend>
                                 : tile.columns == kLanes ? multiply_tile<1, kAddend>
                                                          : multiply_tile<2, kAddend>;
      multiply_into(depth, a, b, tile.bias, tile.c, tile.stride, next);
      return;
    }
    HWY_ALIGN float sums[kRows * kColumns];
    multiply_tile<kTileVectors, Addend::kNothing>(depth, a, b, nullptr, sums, kColumns, next);
    store_sums<kAddend>(sums, kColumns, tile);
  }
};

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
