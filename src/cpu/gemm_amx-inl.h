// The products of gemm.cpp on AMX's tiles, for the AVX-512 target.
//
// A float32 is the sum of three bf16, which hold 8 of its 24 bits each. Of the nine products of two
// such sums, the six largest are computed; the other three add less than 2^-24 of the whole. A
// product of two bf16 is exact in float32; the sums are rounded to it. (Henry, Tang & Heinecke
// 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher- Precision
// Computations".) A non-finite element makes its sums non-finite.
#if defined(FLYWHEEL_CPU_GEMM_AMX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_GEMM_AMX_INL_H
#undef FLYWHEEL_CPU_GEMM_AMX_INL_H
#else
#define FLYWHEEL_CPU_GEMM_AMX_INL_H
#endif

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "cpu/amx_tiles.h"
#include "cpu/gemm_kernel-inl.h"
#include "cpu/gemm_operand.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

// A step of K: what one product of tiles sums. A lane holds two elements of it, k and k + 16: in
// A's tiles lane k of every row does, in B's tiles every lane of row k.
constexpr std::int64_t kAmxStep = 32;
constexpr int kAmxLanes = 16;
constexpr int kAmxParts = 3;
constexpr std::int64_t kTileFloats = amx::kTileRows * amx::kTileRowFloats;

// The 16 x 16 matrix of `rows` transposed.
HWY_INLINE void transpose(__m512 (&rows)[kAmxLanes]) {
  __m512 pairs[kAmxLanes];
  HWY_UNROLL(8)
  for (int i = 0; i < kAmxLanes; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
  const auto low = [](__m512 a, __m512 b) HWY_ATTR {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  const auto high = [](__m512 a, __m512 b) HWY_ATTR {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  HWY_UNROLL(4)
  for (int i = 0; i < kAmxLanes; i += 4) {
    rows[i] = low(pairs[i], pairs[i + 2]);
    rows[i + 1] = high(pairs[i], pairs[i + 2]);
    rows[i + 2] = low(pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = high(pairs[i + 1], pairs[i + 3]);
  }
  // rows[4 g + j] has column 4 b + j of the rows 4 g .. 4 g + 3 in its 128-bit block b.
  HWY_UNROLL(4)
  for (int j = 0; j < 4; ++j) {
    const __m512 even01 = _mm512_shuffle_f32x4(rows[j], rows[4 + j], 0x88);
    const __m512 odd01 = _mm512_shuffle_f32x4(rows[j], rows[4 + j], 0xDD);
    const __m512 even23 = _mm512_shuffle_f32x4(rows[8 + j], rows[12 + j], 0x88);
    const __m512 odd23 = _mm512_shuffle_f32x4(rows[8 + j], rows[12 + j], 0xDD);
    pairs[j] = _mm512_shuffle_f32x4(even01, even23, 0x88);
    pairs[8 + j] = _mm512_shuffle_f32x4(even01, even23, 0xDD);
    pairs[4 + j] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
    pairs[12 + j] = _mm512_shuffle_f32x4(odd01, odd23, 0xDD);
  }
  HWY_UNROLL(16)
  for (int i = 0; i < kAmxLanes; ++i) rows[i] = pairs[i];
}

// rows[o] = the elements (o, 0 ... 15) of a matrix with element (o, l) at x[o * stride + l *
// lane_stride], one of the strides 1; 0 outside of its `extent` x `lanes`. It asks for what lies
// `ahead` elements further, since the stride defeats the hardware's prefetching.
HWY_INLINE void load_square(const float* x, std::int64_t stride, std::int64_t lane_stride,
                            std::int64_t extent, std::int64_t lanes, std::int64_t ahead,
                            __m512 (&rows)[kAmxLanes]) {
  const bool direct = lane_stride == 1;
  const std::int64_t lines = std::clamp<std::int64_t>(direct ? extent : lanes, 0, kAmxLanes);
  const std::int64_t length = std::clamp<std::int64_t>(direct ? lanes : extent, 0, kAmxLanes);
  const std::int64_t step = direct ? stride : lane_stride;
  const auto mask = static_cast<__mmask16>((1U << length) - 1);
  HWY_UNROLL(16)
  for (int i = 0; i < kAmxLanes; ++i) {
    hwy::Prefetch(x + i * step + ahead);
    rows[i] = i < lines ? _mm512_maskz_loadu_ps(mask, x + i * step) : _mm512_setzero_ps();
  }
  if (!direct) transpose(rows);
}

// The parts of the lanes of x (lower halves) and y (upper halves), each `part_floats` after the
// last.
template <int kParts>
HWY_INLINE void store_parts(__m512 x, __m512 y, std::int64_t part_floats, float* out) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  const __m512i half = _mm512_set1_epi32(0x8000);
  HWY_UNROLL(3)
  for (int part = 0; part < kParts; ++part) {
    __m512i a = _mm512_castps_si512(x);
    __m512i b = _mm512_castps_si512(y);
    const bool exact = part == kParts - 1;  // 8 bits are left
    if (!exact) {
      a = _mm512_add_epi32(a, half);
      b = _mm512_add_epi32(b, half);
    }
    b = _mm512_and_si512(b, upper);
    _mm512_store_si512(out + part * part_floats, _mm512_or_si512(_mm512_srli_epi32(a, 16), b));
    if (exact) break;
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_and_si512(a, upper)));
    y = _mm512_sub_ps(y, _mm512_castsi512_ps(b));
  }
}

// The kernel for B in kParts parts: three, or one if its elements are bf16, their own only part.
template <int kParts>
struct AmxKernel {
  static constexpr std::int64_t kRows = 2 * amx::kTileRows;
  static constexpr std::int64_t kColumns = 2 * amx::kTileRowFloats;
  static constexpr std::int64_t kDepth = 1024;
  static constexpr std::int64_t kBlockRows = 5 * kRows;
  static constexpr std::int64_t kBlockColumns = 40 * kColumns;
  static constexpr std::int64_t kFewestPanels = 2;

  using Session = amx::TileSession;

  static constexpr std::int64_t a_panel_floats(std::int64_t depth) {
    return panel_floats(depth, kAmxParts);
  }
  static constexpr std::int64_t b_panel_floats(std::int64_t depth) {
    return panel_floats(depth, kParts);
  }
  static constexpr std::int64_t prefetched_floats(std::int64_t depth) {
    return (depth + kAmxStep - 1) / kAmxStep * kPrefetchedLines * kCacheLine;
  }

  // In A's tiles lanes go along K, in B's along its columns.
  static void pack_a(const Operand& a, std::int64_t rows, std::int64_t depth, float* out) {
    pack<kAmxParts, true>(a, rows, depth, out);
  }
  static void pack_b(const Operand& b, std::int64_t columns, std::int64_t depth, float* out) {
    pack<kParts, false>(b, columns, depth, out);
  }

  template <Addend kAddend>
  static void multiply(std::int64_t depth, const float* a, const float* b, const TileOfC& tile,
                       const float* next) {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      for (std::int64_t j = 0; j < kColumns; j += kCacheLine) {
        hwy::Prefetch(tile.c + r * tile.stride + j);
      }
    }
    amx::zero<0>(), amx::zero<1>(), amx::zero<2>(), amx::zero<3>();
    for (std::int64_t k = 0; k < depth; k += kAmxStep) {
      for (int line = 0; line < kPrefetchedLines; ++line, next += kCacheLine) hwy::Prefetch(next);
      // The largest product last; the others in the order that loads the fewest tiles again. Four
      // tiles hold sums, so that the factors share the other four.
      load_a(a, 2), load_b(b, 0), add_products();
      load_a(a, 1), add_products();
      if constexpr (kParts == 3) load_b(b, 1), add_products();
      load_a(a, 0);
      if constexpr (kParts == 3) {
        add_products();
        load_b(b, 2), add_products();
        load_b(b, 0);
      }
      add_products();
      a += kAmxParts * 2 * kTileFloats;
      b += kParts * 2 * kTileFloats;
    }
    HWY_ALIGN float sums[kRows * kColumns];
    const bool direct =
        kAddend == Addend::kNothing && tile.rows == kRows && tile.columns == kColumns;
    store_tiles(direct ? tile.c : sums, direct ? tile.stride : kColumns);
    if (!direct) store_sums<kAddend>(sums, kColumns, tile);
  }

 private:
  static constexpr int kPrefetchedLines = 12;  // of `next` in a step

  static constexpr std::int64_t panel_floats(std::int64_t depth, int parts) {
    return (depth + kAmxStep - 1) / kAmxStep * parts * 2 * kTileFloats;
  }

  // Of each step of K the parts, of each part two tiles. x has element (i, k) with i < extent.
  template <int kPacked, bool kLanesAlongK>
  static void pack(const Operand& x, std::int64_t extent, std::int64_t depth, float* out) {
    for (std::int64_t k = 0; k < depth; k += kAmxStep) {
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t first = half * kAmxLanes;
        __m512 squares[2][kAmxLanes];
        for (std::int64_t s = 0; s < 2; ++s) {
          const std::int64_t begin = k + s * kAmxLanes;
          const float* from = x.from(first, begin).data;
          const std::int64_t ahead = kAmxStep * x.k_stride;
          if constexpr (kLanesAlongK) {
            load_square(from, x.stride, x.k_stride, extent - first, depth - begin, ahead,
                        squares[s]);
          } else {
            load_square(from, x.k_stride, x.stride, depth - begin, extent - first, ahead,
                        squares[s]);
          }
        }
        store_tile<kPacked>(squares, out + half * kTileFloats);
      }
      out += kPacked * 2 * kTileFloats;
    }
  }

  template <int kTileParts>
  static HWY_INLINE void store_tile(const __m512 (&squares)[2][kAmxLanes], float* out) {
    HWY_UNROLL(16)
    for (int i = 0; i < kAmxLanes; ++i) {
      store_parts<kTileParts>(squares[0][i], squares[1][i], 2 * kTileFloats, out + i * kAmxLanes);
    }
  }

  static HWY_INLINE void load_a(const float* a, int part) {
    amx::load<4>(a + part * 2 * kTileFloats, amx::kTileRowBytes);
    amx::load<5>(a + (part * 2 + 1) * kTileFloats, amx::kTileRowBytes);
  }
  static HWY_INLINE void load_b(const float* b, int part) {
    amx::load<6>(b + part * 2 * kTileFloats, amx::kTileRowBytes);
    amx::load<7>(b + (part * 2 + 1) * kTileFloats, amx::kTileRowBytes);
  }
  static HWY_INLINE void store_tiles(float* c, std::int64_t stride) {
    const std::int64_t row_bytes = 4 * stride;
    float* below = c + amx::kTileRows * stride;
    amx::store<0>(c, row_bytes), amx::store<1>(c + kAmxLanes, row_bytes);
    amx::store<2>(below, row_bytes), amx::store<3>(below + kAmxLanes, row_bytes);
  }
  static HWY_INLINE void add_products() {
    amx::dot_bf16<0, 4, 6>(), amx::dot_bf16<1, 4, 7>();
    amx::dot_bf16<2, 5, 6>(), amx::dot_bf16<3, 5, 7>();
  }
};

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
