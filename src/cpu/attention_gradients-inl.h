// What the backward attention kernels share: weights and gradients of scores of a panel of queries,
// and what they add to the gradients of keys and values. One copy for each Highway target.
#if defined(FLYWHEEL_CPU_ATTENTION_GRADIENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_ATTENTION_GRADIENTS_INL_H
#undef FLYWHEEL_CPU_ATTENTION_GRADIENTS_INL_H
#else
#define FLYWHEEL_CPU_ATTENTION_GRADIENTS_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cpu/attention_products-inl.h"
#include "cpu/attention_tiles-inl.h"
#include "cpu/simd_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of a sequence that begins at `token`; null if nothing is to be turned back.
inline RopeRows rope_rows(const AttentionBackward& args, std::int64_t token) {
  if (!args.cos) return {};
  return {args.cos.f32(), args.sin.f32(), args.positions.i32() + token};
}

// For rows [begin, end) of a tile of keys and a panel of queries: scores, in base 2, become
// weights, and products of dout and values become gradients of scores, to be scaled. Rows that only
// fill up the blocks become 0. lse (in base 2) and delta are those of the panel.
template <int kVectors>
HWY_INLINE void score_gradient_rows(std::int64_t begin, std::int64_t end, const float* lse,
                                    const float* delta, float* weights, float* dscores) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  const F32 d;
  for (int i = 0; i < kVectors; ++i) {
    const auto lane_lse = hn::Load(d, lse + i * kLanes);
    const auto lane_delta = hn::Load(d, delta + i * kLanes);
    FLYWHEEL_UNROLL(4)
    for (std::int64_t r = begin; r < end; ++r) {
      float* weight_place = weights + r * kWidth + i * kLanes;
      float* dscore_place = dscores + r * kWidth + i * kLanes;
      const auto weight = exp2(d, hn::Sub(hn::LoadU(d, weight_place), lane_lse));
      hn::StoreU(weight, d, weight_place);
      hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(d, dscore_place), lane_delta)), d, dscore_place);
    }
  }
  const std::int64_t first = begin / kBlockRows * kBlockRows;
  const std::int64_t last = std::min(kTile, (end + kBlockRows - 1) / kBlockRows * kBlockRows);
  for (float* rows : {weights, dscores}) {
    std::fill(rows + first * kWidth, rows + begin * kWidth, 0.0F);
    std::fill(rows + end * kWidth, rows + last * kWidth, 0.0F);
  }
}

// A tile of queries and a tile of keys.
struct KeyGradientTiles {
  const float* weights;  // all panels
  const float* dscores;  // all panels
  const float* dout_rows;
  const float* q_rows;  // times scale
  float* dv;
  float* dk;
};

// Adds what the queries of some panels give to the block of keys from row `row` on.
template <int kVectors, class Size>
HWY_INLINE void add_key_gradients(Size size, std::int64_t row, PanelRange panels,
                                  const KeyGradientTiles& tiles) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  const auto block = [&](auto rows) HWY_ATTR {
    add_query_products<rows, kVectors>(size, tiles.weights + row * kWidth, panels, tiles.dout_rows,
                                       tiles.dv + row * size);
    add_query_products<rows, kVectors>(size, tiles.dscores + row * kWidth, panels, tiles.q_rows,
                                       tiles.dk + row * size);
  };
  constexpr int kRest = kTile % kBlockRows;
  if (row + kBlockRows <= kTile) return block(std::integral_constant<int, kBlockRows>());
  if constexpr (kRest != 0) block(std::integral_constant<int, kRest>());
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
