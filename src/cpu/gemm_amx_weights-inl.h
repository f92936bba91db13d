// Weights packed into AMX's tiles without the way through float32, for the AVX-512 target.
#if defined(FLYWHEEL_CPU_GEMM_AMX_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_GEMM_AMX_WEIGHTS_INL_H
#undef FLYWHEEL_CPU_GEMM_AMX_WEIGHTS_INL_H
#else
#define FLYWHEEL_CPU_GEMM_AMX_WEIGHTS_INL_H
#endif

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "cpu/amx_tiles.h"
#include "cpu/gemm_operand.h"
#include "cpu/weights-inl.h"
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

HWY_INLINE void store_transposed(__m512i (&rows)[kAmxLanes], float* out) {
  __m512 lanes[kAmxLanes];
  HWY_UNROLL(16)
  for (int i = 0; i < kAmxLanes; ++i) lanes[i] = _mm512_castsi512_ps(rows[i]);
  transpose(lanes);
  HWY_UNROLL(16)
  for (int i = 0; i < kAmxLanes; ++i) _mm512_store_ps(out + i * kAmxLanes, lanes[i]);
}

// Lanes of x and y, each a bf16 with zeros behind it, in one: a lane's elements k and k + 16.
HWY_INLINE __m512i join_halves(__m512i x, __m512i y) {
  return _mm512_or_si512(_mm512_srli_epi32(x, 16), y);
}

// A step of 16 of the panel's columns.
HWY_INLINE void pack_bf16_rows(const Bf16Weights& weights, const PanelOfB& panel, float* out) {
  alignas(64) static constexpr std::uint16_t kPairs[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i pairs = _mm512_load_si512(kPairs);
  __m512i rows[kAmxLanes];
  HWY_UNROLL(16)
  for (int i = 0; i < kAmxLanes; ++i) {
    rows[i] = _mm512_setzero_si512();
    if (i >= panel.columns) continue;
    const std::byte* from = weights.row(panel.first + i) + Bf16Weights::offset(panel.k);
    hwy::Prefetch(from + 2 * Bf16Weights::offset(kAmxStep));
    rows[i] = _mm512_permutexvar_epi16(pairs, _mm512_loadu_si512(from));
  }
  store_transposed(rows, out);
}

HWY_INLINE void pack_bf16_columns(const Bf16Weights& weights, const PanelOfB& panel, float* out) {
  const std::int64_t depth = panel.columns > 0 ? panel.depth : 0;
  const auto load = [&](std::int64_t i) HWY_ATTR {
    if (i >= depth) return _mm512_setzero_si512();
    const std::byte* from = weights.row(panel.k + i) + Bf16Weights::offset(panel.first);
    const auto* halves = reinterpret_cast<const __m256i*>(from);
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(halves)), 16);
  };
  for (int i = 0; i < kAmxLanes; ++i) {
    _mm512_store_si512(out + i * kAmxLanes, join_halves(load(i), load(i + kAmxLanes)));
  }
}

HWY_INLINE void pack_bf16(const Bf16Weights& weights, const PanelOfB& panel, float* out) {
  panel.transposed ? pack_bf16_rows(weights, panel, out) : pack_bf16_columns(weights, panel, out);
}

// Integers of at most 8 bits as float32, which end with zeros.
HWY_INLINE __m512i float_bits(__m512i integers) {
  return _mm512_castps_si512(_mm512_cvtepi32_ps(integers));
}

// A block of 16 of the panel's columns, which are rows of Q8_0: its integers, and its scales.
HWY_INLINE void pack_block(const Q8Weights& weights, const PanelOfB& panel, float* out,
                           float* scales) {
  __m512i rows[kAmxLanes];
  for (int i = 0; i < kAmxLanes; ++i) {
    rows[i] = _mm512_setzero_si512();
    scales[i] = 0;
    if (i >= panel.columns) continue;
    const auto block = Q8Weights::block(weights.row(panel.first + i) + Q8Weights::offset(panel.k));
    const auto load = [&](int at) HWY_ATTR {
      const auto* bytes = reinterpret_cast<const __m128i*>(block.quants + at);
      return float_bits(_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes)));
    };
    rows[i] = join_halves(load(0), load(kAmxLanes));
    scales[i] = block.scale;
  }
  store_transposed(rows, out);
}

HWY_INLINE void pack_block(const InterleavedWeights& weights, const PanelOfB& panel, float* out,
                           float* scales) {
  static_assert(kInterleavedRows == kAmxLanes);
  if (panel.columns <= 0) {
    std::fill_n(out, kTileFloats, 0.0F);
    std::fill_n(scales, kAmxLanes, 0.0F);
    return;
  }
  const std::byte* block = weights.block(panel.first, panel.k);
  const auto* halves = reinterpret_cast<const __m256i*>(block);
  _mm512_store_ps(scales, _mm512_cvtph_ps(_mm256_loadu_si256(halves)));
  const std::byte* fours = block + kInterleavedScaleBytes;
  constexpr int kFours = kAmxLanes / kInterleavedColumns;
  const auto load = [&](int four) HWY_ATTR {
    const __m512i x = _mm512_loadu_si512(fours + four * kInterleavedRows * kInterleavedColumns);
    return _mm512_xor_si512(x, _mm512_set1_epi8(-128));
  };
  for (int four = 0; four < kFours; ++four) {
    const __m512i x = load(four);
    const __m512i y = load(four + kFours);
    HWY_UNROLL(4)
    for (unsigned byte = 0; byte < kInterleavedColumns; ++byte, out += kAmxLanes) {
      const auto signed_byte = [&](__m512i lanes) HWY_ATTR {
        return float_bits(_mm512_srai_epi32(_mm512_slli_epi32(lanes, 24 - 8 * byte), 24));
      };
      _mm512_store_si512(out, join_halves(signed_byte(x), signed_byte(y)));
    }
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
