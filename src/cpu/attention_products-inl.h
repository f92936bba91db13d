// The small matrix products of the attention kernels and the transposition of rows into panels, one
// copy for each Highway target. A panel is [rows][queries] with a few vectors of queries side by
// side: sums over keys or channels, maxima and masks are then lane by lane.
#if defined(FLYWHEEL_CPU_ATTENTION_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_ATTENTION_PRODUCTS_INL_H
#undef FLYWHEEL_CPU_ATTENTION_PRODUCTS_INL_H
#else
#define FLYWHEEL_CPU_ATTENTION_PRODUCTS_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu/attention.h"
#include "hwy/highway.h"

// Under sanitizers, unrolled code and a copy for each head size would take the compiler minutes.
#undef FLYWHEEL_UNROLL
#undef FLYWHEEL_ANY_SIZE_ONLY
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLYWHEEL_UNROLL(factor)
#define FLYWHEEL_ANY_SIZE_ONLY 1
#else
#define FLYWHEEL_UNROLL(factor) HWY_UNROLL(factor)
#define FLYWHEEL_ANY_SIZE_ONLY 0
#endif

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using F32Vector = hn::Vec<F32>;
constexpr std::int64_t kLanes = hn::MaxLanes(F32());
constexpr std::int64_t kTile = kAttentionTile;

// Rows of a block of accumulators: two vectors wide, they fill the register file.
constexpr int kBlockRows = HWY_TARGET == HWY_AVX2 ? 6 : 8;
// One vector wide, a block needs more rows to hide the latency of its multiply-adds.
template <int kVectors>
constexpr int kTallRows = kVectors == 1 ? 2 * kBlockRows : kBlockRows;

// Vectors in a panel of sa and moba, whose visible keys vary from query to query: wide panels would
// compute more that is masked.
constexpr int kNarrowVectors = kLanes > 8 ? 1 : 2;

// The head size, known to the compiler unless kSize is 0.
template <int kSize>
struct HeadSize {
  std::int64_t runtime;
  HWY_INLINE operator std::int64_t() const {  // NOLINT(google-explicit-constructor)
    return kSize != 0 ? kSize : runtime;
  }
};

template <int kRows, int kVectors, class D>
struct Accumulators {
  hn::Vec<D> sum[kRows][kVectors];

  HWY_INLINE Accumulators() {
    FLYWHEEL_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      FLYWHEEL_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(D());
    }
  }

  // sum[r] += over k of a[r * a_row + k * a_step] * b[k * b_step + lanes]
  HWY_INLINE void add_products(std::int64_t depth, const float* HWY_RESTRICT a, std::int64_t a_row,
                               std::int64_t a_step, const float* HWY_RESTRICT b,
                               std::int64_t b_step) {
    const D d;
    FLYWHEEL_UNROLL(4)
    for (std::int64_t k = 0; k < depth; ++k) {
      hn::Vec<D> x[kVectors];
      FLYWHEEL_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(d, b + k * b_step + v * lanes());
      FLYWHEEL_UNROLL(16)
      for (int r = 0; r < kRows; ++r) {
        const auto factor = hn::Set(d, a[r * a_row + k * a_step]);
        FLYWHEEL_UNROLL(4)
        for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(factor, x[v], sum[r][v]);
      }
    }
  }

  // store(r, v, sum, place): place is where row r, vector v goes in `out`.
  template <class Store>
  HWY_INLINE void for_each(float* HWY_RESTRICT out, std::int64_t out_row, const Store& store) {
    FLYWHEEL_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      FLYWHEEL_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) store(v, sum[r][v], out + r * out_row + v * lanes());
    }
  }

  static HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }
};

template <int kRows, int kVectors, class Size>
HWY_INLINE void multiply_keys_block(Size size, const float* keys, const float* queries,
                                    float* scores) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  Accumulators<kRows, kVectors, F32> block;
  block.add_products(size, keys, size, 1, queries, kWidth);
  block.for_each(scores, kWidth,
                 [](int, F32Vector sum, float* place) HWY_ATTR { hn::StoreU(sum, F32(), place); });
}

// scores[r][lane] = sum over c of keys[r][c] * queries[c][lane], for rows [begin, end) of a tile
// and perhaps some more.
template <int kVectors, class Size>
HWY_INLINE void multiply_keys(Size size, const float* keys, const float* queries,
                              std::int64_t begin, std::int64_t end, float* scores) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  constexpr int kTall = kTallRows<kVectors>;
  const auto block = [&](auto rows, std::int64_t r) HWY_ATTR {
    const std::int64_t row = std::min(r, kTile - rows);
    multiply_keys_block<rows, kVectors>(size, keys + row * size, queries, scores + row * kWidth);
  };
  std::int64_t r = begin;
  for (; r + kBlockRows < end; r += kTall) block(std::integral_constant<int, kTall>(), r);
  if (r < end) block(std::integral_constant<int, kBlockRows>(), r);
}

template <int kRows, int kVectors, class Size>
HWY_INLINE void multiply_values_block(Size size, const float* values, const float* weights,
                                      std::int64_t rows, const F32Vector* factor, float* out) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  Accumulators<kRows, kVectors, F32> block;
  block.add_products(rows, values, 1, size, weights, kWidth);
  block.for_each(out, kWidth, [factor](int v, F32Vector sum, float* place) HWY_ATTR {
    const F32 d;
    hn::StoreU(hn::MulAdd(hn::LoadU(d, place), factor[v], sum), d, place);
  });
}

// out[c][lane] = factor[lane] * out[c][lane] + sum over rows r of values[r][c] * weights[r][lane]
template <int kVectors, class Size>
HWY_INLINE void multiply_values(Size size, const float* values, const float* weights,
                                std::int64_t rows, const F32Vector* factor, float* out) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  constexpr int kTall = kTallRows<kVectors>;
  std::int64_t c = 0;
  const auto block = [&](auto channels) HWY_ATTR {
    multiply_values_block<channels, kVectors>(size, values + c, weights, rows, factor,
                                              out + c * kWidth);
    c += channels;
  };
  while (c + kTall <= size) block(std::integral_constant<int, kTall>());
  while (c + kBlockRows <= size) block(std::integral_constant<int, kBlockRows>());
  // Head sizes are multiples of 8: only where kBlockRows is not.
  while (c + 2 <= size) block(std::integral_constant<int, 2>());
}

// Which panels of weights take part in a product over queries.
struct PanelRange {
  std::int64_t begin;
  std::int64_t end;
};

// out[r][c] += sum over the panels' queries q of weights[panel][r][q] * rows[q][c], for kRows rows
// r and all channels c.
template <int kRows, int kVectors, int kPanelVectors, class D, class Size>
HWY_INLINE void add_query_products_columns(D d, Size size, const float* weights, PanelRange panels,
                                           const float* rows, float* out) {
  constexpr std::int64_t kWidth = kPanelVectors * kLanes;
  Accumulators<kRows, kVectors, D> block;
  for (std::int64_t p = panels.begin; p < panels.end; ++p) {
    block.add_products(kWidth, weights + p * kTile * kWidth, kWidth, 1, rows + p * kWidth * size,
                       size);
  }
  block.for_each(out, size, [d](int, hn::Vec<D> sum, float* place) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, place), sum), d, place);
  });
}

template <int kRows, int kPanelVectors, class Size>
HWY_INLINE void add_query_products(Size size, const float* weights, PanelRange panels,
                                   const float* rows, float* out) {
  std::int64_t c = 0;
  for (; c + 2 * kLanes <= size; c += 2 * kLanes) {
    add_query_products_columns<kRows, 2, kPanelVectors>(F32(), size, weights, panels, rows + c,
                                                        out + c);
  }
  const hn::CappedTag<float, 8> narrow;
  for (; c < size; c += static_cast<std::int64_t>(hn::Lanes(narrow))) {
    add_query_products_columns<kRows, 1, kPanelVectors>(narrow, size, weights, panels, rows + c,
                                                        out + c);
  }
}

// Transposes 8 x 8 blocks: load(i) is row i of the block, store(i, v) takes column i.
template <class Load, class Store>
HWY_INLINE void transpose_8x8(const Load& load, const Store& store) {
  const hn::FixedTag<float, 8> d;
  const hn::RepartitionToWide<decltype(d)> dw;
  using V = hn::Vec<decltype(d)>;
  V pairs[8];
  FLYWHEEL_UNROLL(4)
  for (int i = 0; i < 8; i += 2) {
    const V a = load(i);
    const V b = load(i + 1);
    pairs[i] = hn::InterleaveLower(d, a, b);
    pairs[i + 1] = hn::InterleaveUpper(d, a, b);
  }
  V quads[8];
  FLYWHEEL_UNROLL(2)
  for (int i = 0; i < 8; i += 4) {
    FLYWHEEL_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      const auto a = hn::BitCast(dw, pairs[i + half]);
      const auto b = hn::BitCast(dw, pairs[i + 2 + half]);
      quads[i + 2 * half] = hn::BitCast(d, hn::InterleaveLower(dw, a, b));
      quads[i + 2 * half + 1] = hn::BitCast(d, hn::InterleaveUpper(dw, a, b));
    }
  }
  FLYWHEEL_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    store(i, hn::ConcatLowerLower(d, quads[i + 4], quads[i]));
    store(i + 4, hn::ConcatUpperUpper(d, quads[i + 4], quads[i]));
  }
}

// Rows (one pointer each) to panels [kTile / kWidth][size][kWidth], times `factor`. `count`, a
// multiple of 8: only so many.
template <int kVectors, class Size>
HWY_INLINE void rows_to_panels(Size size, const float* const* rows, float factor, float* panels,
                               std::int64_t count = kTile) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  const hn::FixedTag<float, 8> d;
  const auto scale = hn::Set(d, factor);
  for (std::int64_t r = 0; r < count; r += 8) {
    float* panel = panels + r / kWidth * size * kWidth + r % kWidth;
    for (std::int64_t c = 0; c < size; c += 8) {
      transpose_8x8([&](int i) HWY_ATTR { return hn::Mul(hn::LoadU(d, rows[r + i] + c), scale); },
                    [&](int i, auto v) HWY_ATTR { hn::StoreU(v, d, panel + (c + i) * kWidth); });
    }
  }
}

// The way back: row r of the tile, times factors[r], is stored (or added) at rows[r].
template <int kVectors, bool kAdd, class Size>
HWY_INLINE void panels_to_rows(Size size, const float* panels, const float* factors,
                               float* const* rows, std::int64_t count = kTile) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  const hn::FixedTag<float, 8> d;
  for (std::int64_t r = 0; r < count; r += 8) {
    const float* panel = panels + r / kWidth * size * kWidth + r % kWidth;
    const auto factor = hn::LoadU(d, factors + r);
    for (std::int64_t c = 0; c < size; c += 8) {
      transpose_8x8(
          [&](int i) HWY_ATTR { return hn::Mul(hn::LoadU(d, panel + (c + i) * kWidth), factor); },
          [&](int i, auto v) HWY_ATTR {
            float* place = rows[r + i] + c;
            hn::StoreU(kAdd ? hn::Add(hn::LoadU(d, place), v) : v, d, place);
          });
    }
  }
}

// out[c] = factor * x[c]
template <class Size>
HWY_INLINE void copy_row(Size size, const float* HWY_RESTRICT x, float factor,
                         float* HWY_RESTRICT out) {
  const hn::CappedTag<float, 8> d;
  const auto scale = hn::Set(d, factor);
  for (std::int64_t c = 0; c < size; c += static_cast<std::int64_t>(hn::Lanes(d))) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + c), scale), d, out + c);
  }
}

// out[c] *= factor
template <class Size>
HWY_INLINE void scale_row(Size size, float factor, float* out) {
  const hn::CappedTag<float, 8> d;
  const auto scale = hn::Set(d, factor);
  for (std::int64_t c = 0; c < size; c += static_cast<std::int64_t>(hn::Lanes(d))) {
    hn::StoreU(hn::Mul(hn::LoadU(d, out + c), scale), d, out + c);
  }
}

// out[c] += x[c]
template <class Size>
HWY_INLINE void add_row(Size size, const float* HWY_RESTRICT x, float* HWY_RESTRICT out) {
  const hn::CappedTag<float, 8> d;
  for (std::int64_t c = 0; c < size; c += static_cast<std::int64_t>(hn::Lanes(d))) {
    hn::StoreU(hn::Add(hn::LoadU(d, out + c), hn::LoadU(d, x + c)), d, out + c);
  }
}

template <class Size>
HWY_INLINE float dot_rows(Size size, const float* x, const float* y) {
  const hn::CappedTag<float, 8> d;
  auto sum = hn::Zero(d);
  for (std::int64_t c = 0; c < size; c += static_cast<std::int64_t>(hn::Lanes(d))) {
    sum = hn::MulAdd(hn::LoadU(d, x + c), hn::LoadU(d, y + c), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
