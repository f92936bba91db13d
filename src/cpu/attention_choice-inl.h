// moba: which earlier blocks each query sees (docs/attention.md; Lu et al. 2025). The forward and
// the backward pass choose with this code, so that both see the same keys. One copy for each
// Highway target.
#if defined(FLYWHEEL_CPU_ATTENTION_CHOICE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_ATTENTION_CHOICE_INL_H
#undef FLYWHEEL_CPU_ATTENTION_CHOICE_INL_H
#else
#define FLYWHEEL_CPU_ATTENTION_CHOICE_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cpu/attention_products-inl.h"
#include "cpu/attention_scratch.h"
#include "cpu/attention_tiles-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The choices of the queries [begin, end) of a sequence, by the products with the blocks' mean
// keys. `begin` is that of a tile; a choice does not depend on the others.
template <class Size>
class BlockChoice {
  static constexpr int kVectors = kNarrowVectors;
  static constexpr std::int64_t kWidth = kVectors * kLanes;

 public:
  BlockChoice(Size size, std::int64_t block, std::int64_t begin, std::int64_t end,
              const ChoiceShape& shape, const ChoiceBuffers& buffers)
      : size_(size), block_(block), begin_(begin), end_(end), shape_(shape), buffers_(buffers) {}

  // Blocks that are earlier ones of some query.
  std::int64_t earlier_blocks() const { return (end_ - 1) / block_; }

  // Before queries choose: the mean keys, of the key head that they read.
  void average_keys(const HeadRows<const float>& keys) {
    const std::int64_t blocks = earlier_blocks();
    const float share = 1.0F / static_cast<float>(block_);
    for (std::int64_t b = 0; b < blocks; ++b) {
      float* mean = buffers_.mean_keys + b * size_;
      std::fill_n(mean, static_cast<std::int64_t>(size_), 0.0F);
      for (std::int64_t j = b * block_; j < (b + 1) * block_; ++j)
        add_row(size_, keys.row(j), mean);
      scale_row(size_, share, mean);
    }
  }

  // Makes the lists of queries by block.
  void choose(const HeadRows<const float>& queries) {
    for (std::int64_t first = begin_; first < end_; first += kTile) choose_of_tile(queries, first);
    group_by_block();
  }

  bool is_chosen(std::int64_t block) const {
    return buffers_.starts[block] < buffers_.starts[block + 1];
  }

  // Calls body(queries, count) for the queries that chose the block, in order, up to kTile at a
  // time.
  template <class Body>
  HWY_INLINE void for_choosers(std::int64_t block, const Body& body) const {
    const std::int32_t end = buffers_.starts[block + 1];
    for (std::int32_t g = buffers_.starts[block]; g < end; g += kTile) {
      body(buffers_.queries + g, std::min<std::int32_t>(kTile, end - g));
    }
  }

 private:
  // Of the queries of a tile, the best earlier blocks: chosen[place][query].
  void choose_of_tile(const HeadRows<const float>& queries, std::int64_t first) {
    const float* rows[kTile];
    for (std::int64_t r = 0; r < kTile; ++r) rows[r] = queries.row(std::min(first + r, end_ - 1));
    rows_to_panels<kVectors>(size_, rows, 1.0F, buffers_.q_panels);
    for (std::int64_t panel = 0; panel < kTile / kWidth; ++panel) {
      const std::int64_t query = first + panel * kWidth;
      if (query < end_) choose_of_panel(query, buffers_.q_panels + panel * kWidth * size_);
    }
  }

  HWY_NOINLINE void choose_of_panel(std::int64_t query, const float* q_panel) {
    const hn::RebindToSigned<F32> di;
    std::int32_t* chosen = buffers_.chosen + (query - begin_);
    for (std::int64_t place = 0; place < shape_.places; ++place) {
      for (std::int64_t lane = 0; lane < kWidth; lane += kLanes) {
        hn::StoreU(hn::Set(di, -1), di, chosen + place * shape_.queries + lane);
        hn::StoreU(hn::Set(F32(), -std::numeric_limits<float>::infinity()), F32(),
                   buffers_.best + place * kWidth + lane);
      }
    }
    alignas(64) std::int32_t own_block[kWidth];
    for (std::int64_t lane = 0; lane < kWidth; ++lane) {
      own_block[lane] = static_cast<std::int32_t>(std::min(query + lane, end_ - 1) / block_);
    }
    const std::int64_t blocks = own_block[kWidth - 1];
    for (std::int64_t tile = 0; tile < blocks; tile += kTile) {
      const std::int64_t rows = std::min(kTile, blocks - tile);
      multiply_keys<kVectors>(size_, buffers_.mean_keys + tile * size_, q_panel, 0, rows,
                              buffers_.scores);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t lane = 0; lane < kWidth; lane += kLanes) {
          offer(static_cast<std::int32_t>(tile + r), own_block + lane,
                hn::LoadU(F32(), buffers_.scores + r * kWidth + lane), buffers_.best + lane,
                chosen + lane);
        }
      }
    }
  }

  // Puts a block where it belongs among a query's best, unless it is not an earlier one. Of equal
  // scores the lower block, which came first, stays before the other.
  HWY_INLINE void offer(std::int32_t block, const std::int32_t* own_block, F32Vector score,
                        float* best, std::int32_t* chosen) {
    const F32 d;
    const hn::RebindToSigned<F32> di;
    auto number = hn::Set(di, block);
    const auto earlier = hn::RebindMask(d, hn::Lt(number, hn::Load(di, own_block)));
    score = hn::IfThenElse(earlier, score, hn::Set(d, -std::numeric_limits<float>::infinity()));
    const float* last = best + (shape_.places - 1) * kWidth;
    if (hn::AllFalse(d, hn::Gt(score, hn::LoadU(d, last)))) return;
    auto moved = hn::MaskFromVec(hn::Zero(d));
    for (std::int64_t place = 0; place < shape_.places; ++place) {
      float* held_score = best + place * kWidth;
      std::int32_t* held_number = chosen + place * shape_.queries;
      const auto old_score = hn::LoadU(d, held_score);
      const auto old_number = hn::LoadU(di, held_number);
      moved = hn::Or(moved, hn::Gt(score, old_score));
      hn::StoreU(hn::IfThenElse(moved, score, old_score), d, held_score);
      hn::StoreU(hn::IfThenElse(hn::RebindMask(di, moved), number, old_number), di, held_number);
      score = hn::IfThenElse(moved, old_score, score);
      number = hn::IfThenElse(hn::RebindMask(di, moved), old_number, number);
    }
  }

  // Lists the queries of each block: queries[starts[b]] to queries[starts[b + 1]].
  void group_by_block() {
    const std::int64_t blocks = earlier_blocks();
    std::int32_t* next = buffers_.starts + 1;
    std::fill_n(buffers_.starts, blocks + 2, 0);
    const auto for_each_choice = [&](const auto& f) {
      for (std::int64_t i = 0; i < end_ - begin_; ++i) {
        for (std::int64_t place = 0; place < shape_.places; ++place) {
          const std::int32_t b = buffers_.chosen[place * shape_.queries + i];
          if (b >= 0) f(b, static_cast<std::int32_t>(begin_ + i));
        }
      }
    };
    for_each_choice([&](std::int32_t b, std::int32_t) { ++next[b + 1]; });
    for (std::int64_t b = 0; b < blocks; ++b) next[b + 1] += next[b];
    for_each_choice([&](std::int32_t b, std::int32_t i) { buffers_.queries[next[b]++] = i; });
  }

  Size size_;
  std::int64_t block_;
  std::int64_t begin_;
  std::int64_t end_;
  ChoiceShape shape_;
  ChoiceBuffers buffers_;
};

// Rows [first, first + count) of a sequence of `length`, one after another: kTile of them may be
// read. Where they lie if that is possible, else a copy.
template <class Size>
HWY_INLINE const float* contiguous_tile(Size size, const HeadRows<const float>& rows,
                                        std::int64_t first, std::int64_t count, std::int64_t length,
                                        float* copy) {
  const std::int64_t step = size;
  if (rows.step == step && first + kTile <= length) return rows.row(first);
  for (std::int64_t r = 0; r < count; ++r) {
    copy_row(size, rows.row(first + r), 1.0F, copy + r * size);
  }
  return copy;
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
