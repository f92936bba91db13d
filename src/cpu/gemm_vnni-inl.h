// Products of a few rows with Q8_0x16 weights in integers (VNNI), for the AVX-512 target.
//
// In each block of 32 elements of A all become integers of 31 bits times a power of two: four
// digits to the base 256. Their products with the weights' integers are summed exactly, block by
// block, and rounded then. So an element is off by half a unit, 2^-30 of its block's largest or
// less, and a sum is rounded a few times in 32 terms, where float32 rounds each addition. (Blocks
// below 1e-29 keep fewer bits: their power of two ends at 2^126.) A block with a non-finite element
// gives NaN.
#if defined(FLYWHEEL_CPU_GEMM_VNNI_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_GEMM_VNNI_INL_H
#undef FLYWHEEL_CPU_GEMM_VNNI_INL_H
#else
#define FLYWHEEL_CPU_GEMM_VNNI_INL_H
#endif

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "core/interleaved_rows.h"
#include "cpu/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

constexpr int kDigits = 4;
constexpr int kDigitBits = 8;
constexpr std::int32_t kHalfBase = 1 << (kDigitBits - 1);  // digits are in [-128, 128)

// 32 elements of a row of A: scale * sum of 256^i digits[i].
struct DigitBlock {
  std::int8_t digits[kDigits][kWeightBlock];
  // What the weights' offset of 128 adds to the sums of products, negated.
  std::int32_t corrections[kDigits];
  float scale;
};

// The largest power of two, up to 2^126, by which `size` stays within the digits.
HWY_INLINE float digit_factor(float size) {
  constexpr std::uint32_t kIntegerBits = kDigits * kDigitBits - 2;
  constexpr float kLargest = (kHalfBase - 1) * static_cast<float>(1 << (kDigits - 1) * kDigitBits);
  constexpr std::uint32_t kMantissaBits = 23;
  constexpr std::uint32_t kBias = 127;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(size) >> kMantissaBits;
  const std::uint32_t within = std::min(kIntegerBits + 2 * kBias - exponent, kBias + 126);
  const float factor = std::bit_cast<float>(within << kMantissaBits);
  return size * factor > kLargest ? factor / 2 : factor;
}

HWY_INLINE void to_digits(const float* a, DigitBlock& out) {
  constexpr int kLanes = 16;
  const __m512 values[2] = {_mm512_loadu_ps(a), _mm512_loadu_ps(a + kLanes)};
  const __m512 sizes[2] = {_mm512_abs_ps(values[0]), _mm512_abs_ps(values[1])};
  const __m512 limit = _mm512_set1_ps(std::numeric_limits<float>::max());
  const bool finite = (_mm512_cmp_ps_mask(sizes[0], limit, _CMP_LE_OQ) &
                       _mm512_cmp_ps_mask(sizes[1], limit, _CMP_LE_OQ)) == 0xffff;
  const float factor = digit_factor(_mm512_reduce_max_ps(_mm512_max_ps(sizes[0], sizes[1])));
  out.scale = finite ? 1 / factor : std::numeric_limits<float>::quiet_NaN();
  __m512i integers[2];
  for (int half = 0; half < 2; ++half) {
    integers[half] = _mm512_cvtps_epi32(_mm512_mul_ps(values[half], _mm512_set1_ps(factor)));
  }
  for (int digit = 0; digit < kDigits; ++digit) {
    __m512i total = _mm512_setzero_si512();
    for (int half = 0; half < 2; ++half) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out.digits[digit] + half * kLanes),
                       _mm512_cvtepi32_epi8(integers[half]));
      const __m512i rest = _mm512_srai_epi32(
          _mm512_add_epi32(integers[half], _mm512_set1_epi32(kHalfBase)), kDigitBits);
      total = _mm512_add_epi32(
          total, _mm512_sub_epi32(integers[half], _mm512_slli_epi32(rest, kDigitBits)));
      integers[half] = rest;
    }
    out.corrections[digit] = -kHalfBase * _mm512_reduce_add_epi32(total);
  }
}

// sums[i] += the four products of the unsigned bytes in x's lane i and the signed ones at `four`.
HWY_INLINE void add_products(__m512i& sums, __m512i x, const std::int8_t* four) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sums)
      : "v"(x), "m"(*reinterpret_cast<const std::int8_t(*)[kInterleavedColumns]>(four)));
}

// The 32 columns of 16 rows of weights.
struct WeightBlock {
  static constexpr int kFours = kWeightBlock / kInterleavedColumns;
  __m512i fours[kFours];
  __m512 scales;

  HWY_INLINE explicit WeightBlock(const std::byte* block)
      : scales(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block)))) {
    HWY_UNROLL(8)
    for (int v = 0; v < kFours; ++v) {
      fours[v] = _mm512_loadu_si512(block + kInterleavedScaleBytes + v * sizeof(__m512i));
      asm("" : "+v"(fours[v]));  // or the compiler loads it anew for each product
    }
  }

  // sum + the products with the same columns of a row of A.
  HWY_INLINE __m512 multiply_add(const DigitBlock& a, __m512 sum) const {
    __m512i sums[kDigits];
    HWY_UNROLL(4)
    for (int digit = 0; digit < kDigits; ++digit) {
      sums[digit] = _mm512_set1_epi32(a.corrections[digit]);
    }
    HWY_UNROLL(8)
    for (int v = 0; v < kFours; ++v) {
      HWY_UNROLL(4)
      for (int digit = 0; digit < kDigits; ++digit) {
        add_products(sums[digit], fours[v], a.digits[digit] + v * kInterleavedColumns);
      }
    }
    __m512 all = _mm512_cvtepi32_ps(sums[kDigits - 1]);
    HWY_UNROLL(4)
    for (int digit = kDigits - 2; digit >= 0; --digit) {
      all = _mm512_fmadd_ps(all, _mm512_set1_ps(1 << kDigitBits), _mm512_cvtepi32_ps(sums[digit]));
    }
    return _mm512_fmadd_ps(all, _mm512_mul_ps(scales, _mm512_set1_ps(a.scale)), sum);
  }
};

// A group of 16 columns of B times kRows rows of A, `blocks` blocks each.
template <int kRows>
HWY_INLINE void multiply_group(const std::byte* group, const DigitBlock* a, std::int64_t blocks,
                               __m512 (&sums)[kRows]) {
  constexpr std::int64_t kAhead = 8 * kInterleavedBlockBytes;  // of prefetching
  constexpr std::int64_t kCacheLine = 64;
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) sums[r] = _mm512_setzero_ps();
  for (std::int64_t block = 0; block < blocks; ++block, group += kInterleavedBlockBytes) {
    HWY_UNROLL(9)
    for (std::int64_t at = 0; at < kInterleavedBlockBytes; at += kCacheLine) {
      hwy::Prefetch(group + kAhead + at);
    }
    const WeightBlock weights(group);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      sums[r] = weights.multiply_add(a[r * blocks + block], sums[r]);
    }
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
