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
#include <concepts>
#include <cstdint>

#include "cpu/amx_tiles.h"
#include "cpu/gemm_amx_weights-inl.h"
#include "cpu/gemm_kernel-inl.h"
#include "cpu/gemm_operand.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

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

// Packs x, with element (i, k) for i < extent, into tiles: of each step of K the kPacked parts, of
// each part kTiles tiles.
template <int kPacked, int kTiles, bool kLanesAlongK>
HWY_INLINE void pack_tiles(const Operand& x, std::int64_t extent, std::int64_t depth, float* out) {
  for (std::int64_t k = 0; k < depth; k += kAmxStep, out += kPacked * kTiles * kTileFloats) {
    for (std::int64_t tile = 0; tile < kTiles; ++tile) {
      const std::int64_t first = tile * kAmxLanes;
      __m512 squares[2][kAmxLanes];
      for (std::int64_t s = 0; s < 2; ++s) {
        const std::int64_t begin = k + s * kAmxLanes;
        const float* from = x.from(first, begin).data;
        const std::int64_t ahead = kAmxStep * x.k_stride;
        if constexpr (kLanesAlongK) {
          load_square(from, x.stride, x.k_stride, extent - first, depth - begin, ahead, squares[s]);
        } else {
          load_square(from, x.k_stride, x.stride, depth - begin, extent - first, ahead, squares[s]);
        }
      }
      HWY_UNROLL(16)
      for (int i = 0; i < kAmxLanes; ++i) {
        store_parts<kPacked>(squares[0][i], squares[1][i], kTiles * kTileFloats,
                             out + tile * kTileFloats + i * kAmxLanes);
      }
    }
  }
}

// What the kernels have in common: a tile of A times two of B. Five of the eight tiles hold data,
// since more of them wait for each other where the core's other thread uses tiles too: there a
// block of 2 x 2 sums, which loads less, takes twice as long (and no less elsewhere).
struct AmxPanels {
  static constexpr std::int64_t kRows = amx::kTileRows;
  static constexpr std::int64_t kColumns = 2 * amx::kTileRowFloats;
  static constexpr std::int64_t kDepth = 1024;
  static constexpr std::int64_t kBlockRows = 10 * kRows;
  static constexpr std::int64_t kBlockColumns = 40 * kColumns;
  static constexpr std::int64_t kFewestPanels = 4;

  using Session = amx::TileSession;

  static constexpr std::int64_t a_panel_floats(std::int64_t depth) {
    return steps(depth) * kAmxParts * kTileFloats;
  }
  static constexpr std::int64_t prefetched_floats(std::int64_t depth) {
    return steps(depth) * kPrefetchedLines * kCacheLine;
  }

  // In A's tiles lanes go along K, in B's along its columns.
  static void pack_a(const Operand& a, std::int64_t rows, std::int64_t depth, float* out) {
    pack_tiles<kAmxParts, 1, true>(a, rows, depth, out);
  }

 protected:
  static constexpr std::int64_t steps(std::int64_t depth) {
    return (depth + kAmxStep - 1) / kAmxStep;
  }

  static HWY_INLINE void prefetch_c(const TileOfC& tile) {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      for (std::int64_t j = 0; j < kColumns; j += kCacheLine) {
        hwy::Prefetch(tile.c + r * tile.stride + j);
      }
    }
  }
  static HWY_INLINE const float* prefetch_step(const float* next) {
    for (int line = 0; line < kPrefetchedLines; ++line, next += kCacheLine) hwy::Prefetch(next);
    return next;
  }

  static HWY_INLINE void zero_sums() { amx::zero<0>(), amx::zero<1>(); }
  static HWY_INLINE void load_a(const float* a, int part) {
    amx::load<2>(a + part * kTileFloats, amx::kTileRowBytes);
  }
  static HWY_INLINE void load_b(const float* b, int part) {
    amx::load<3>(b + part * 2 * kTileFloats, amx::kTileRowBytes);
    amx::load<4>(b + (part * 2 + 1) * kTileFloats, amx::kTileRowBytes);
  }
  static HWY_INLINE void add_products() { amx::dot_bf16<0, 2, 3>(), amx::dot_bf16<1, 2, 4>(); }
  static HWY_INLINE void store_tiles(float* c, std::int64_t stride) {
    amx::store<0>(c, 4 * stride), amx::store<1>(c + kAmxLanes, 4 * stride);
  }

 private:
  static constexpr int kPrefetchedLines = 4;  // of `next` in a step
};

// The kernel for B in kParts parts: three, or one if its elements are bf16, their own only part.
template <int kParts>
struct AmxKernel : AmxPanels {
  static constexpr std::int64_t b_panel_floats(std::int64_t depth) {
    return steps(depth) * kParts * 2 * kTileFloats;
  }

  static void pack_b(const Operand& b, std::int64_t columns, std::int64_t depth, float* out) {
    pack_tiles<kParts, 2, false>(b, columns, depth, out);
  }
  static void pack_weights(const Bf16Weights& weights, const PanelOfB& panel,
                           float* out) requires(kParts == 1) {
    for (std::int64_t k = 0; k < panel.depth; k += kAmxStep) {
      for (std::int64_t j = 0; j < kColumns; j += kAmxLanes, out += kTileFloats) {
        pack_bf16(weights, panel.from(j, k), out);
      }
    }
  }

  template <Addend kAddend>
  static void multiply(std::int64_t depth, const float* a, const float* b, const TileOfC& tile,
                       const float* next) {
    prefetch_c(tile);
    zero_sums();
    for (std::int64_t k = 0; k < depth; k += kAmxStep) {
      next = prefetch_step(next);
      // The largest product last; the others in the order that loads the fewest tiles again.
      load_b(b, 0), load_a(a, 2), add_products();
      load_a(a, 1), add_products();
      if constexpr (kParts == 3) load_b(b, 1), add_products();
      load_a(a, 0);
      if constexpr (kParts == 3) {
        add_products();
        load_b(b, 2), add_products();
        load_b(b, 0);
      }
      add_products();
      a += kAmxParts * kTileFloats;
      b += kParts * 2 * kTileFloats;
    }
    HWY_ALIGN float sums[kRows * kColumns];
    const bool direct =
        kAddend == Addend::kNothing && tile.rows == kRows && tile.columns == kColumns;
    store_tiles(direct ? tile.c : sums, direct ? tile.stride : kColumns);
    if (!direct) store_sums<kAddend>(sums, kColumns, tile);
  }
};

// The kernel for rows of Q8_0, whose blocks are the steps of K: B's tiles hold the integers, which
// bf16 hold too, and the sums of a block are multiplied by its scales before they are added up.
struct AmxBlockKernel : AmxPanels {
  static_assert(kAmxStep == kWeightBlock);

  static constexpr std::int64_t b_panel_floats(std::int64_t depth) {
    return steps(depth) * kStepFloats;
  }

  template <class Weights>
  requires std::same_as<Weights, Q8Weights> || std::same_as<Weights, InterleavedWeights>
  static void pack_weights(const Weights& weights, const PanelOfB& panel, float* out) {
    for (std::int64_t k = 0; k < panel.depth; k += kAmxStep, out += kStepFloats) {
      for (std::int64_t tile = 0; tile < 2; ++tile) {
        pack_block(weights, panel.from(tile * kAmxLanes, k), out + tile * kTileFloats,
                   out + 2 * kTileFloats + tile * kAmxLanes);
      }
    }
  }

  template <Addend kAddend>
  static void multiply(std::int64_t depth, const float* a, const float* b, const TileOfC& tile,
                       const float* next) {
    prefetch_c(tile);
    HWY_ALIGN float products[kRows * kColumns];
    HWY_ALIGN float sums[kRows * kColumns] = {};
    for (std::int64_t k = 0; k < depth; k += kAmxStep) {
      next = prefetch_step(next);
      zero_sums();
      load_b(b, 0);
      load_a(a, 2), add_products();
      load_a(a, 1), add_products();
      load_a(a, 0), add_products();
      // Those of the step before, while the tiles multiply.
      if (k > 0) add_scaled(products, b - kStepFloats + 2 * kTileFloats, sums);
      store_tiles(products, kColumns);
      a += kAmxParts * kTileFloats;
      b += kStepFloats;
    }
    add_scaled(products, b - kStepFloats + 2 * kTileFloats, sums);
    store_sums<kAddend>(sums, kColumns, tile);
  }

 private:
  static constexpr std::int64_t kStepFloats = 2 * kTileFloats + kColumns;  // two tiles, the scales

  static HWY_INLINE void add_scaled(const float* products, const float* scales, float* sums) {
    const __m512 left = _mm512_load_ps(scales);
    const __m512 right = _mm512_load_ps(scales + kAmxLanes);
    const auto add = [&](__m512 scale, std::int64_t at) HWY_ATTR {
      const __m512 product = _mm512_load_ps(products + at);
      _mm512_store_ps(sums + at, _mm512_fmadd_ps(scale, product, _mm512_load_ps(sums + at)));
    };
    HWY_UNROLL(16)
    for (std::int64_t at = 0; at < kRows * kColumns; at += kColumns) {
      add(left, at);
      add(right, at + kAmxLanes);
    }
  }
};

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
