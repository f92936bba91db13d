#include "cuda/kernels/attention_counts.h"

#include "cuda/kernels/attention_blocks.h"

namespace flywheel::cuda {
namespace {

class Counter {
 public:
  Counter(const DevicePlan& plan, const AttentionTile& own)
      : plan_(plan), own_(own), queries_(part_of(own, {own.tile, 0}, 0, kAttentionTile)) {}

  void add_to(BlockCounts& counts) const {
    ChunkWalk<true> walk(own_, queries_);
    for (Part keys = walk.next(); keys.count > 0; keys = walk.next()) {
      for (int row = 0; row < kAttentionTile; row += kGroup) {
        for (int column = 0; column < kChunk; column += kGroup)
          add_block(counts, keys, row, column);
      }
      counts.visible += static_cast<double>(visible_pairs(keys)) / (kGroup * kGroup);
    }
  }

 private:
  void add_block(BlockCounts& counts, const Part& keys, int row, int column) const {
    const auto position_in = [this](const Part& part) {
      return [this, part](std::int32_t r) { return position_of(plan_, own_, part, r); };
    };
    const Span query_span = span_of_queries(position_in(queries_), row, queries_.count);
    const Span key_span = span_of_keys(position_in(keys), column, keys.count);
    ++counts.visited;
    if (!meet(own_, query_span, key_span)) return;
    ++counts.executed;
    const bool in_band = tiles_in_band<true>(own_, keys.tile);
    if (!all_visible(own_, in_band, query_span, key_span)) ++counts.masked;
  }

  std::int64_t visible_pairs(const Part& keys) const {
    std::int64_t pairs = 0;
    for (int q = 0; q < queries_.count; ++q) {
      for (int k = 0; k < keys.count; ++k) {
        const bool before =
            position_of(plan_, own_, keys, k) <= position_of(plan_, own_, queries_, q);
        const std::int32_t distance =
            rank_of(plan_, own_, queries_, q) - rank_of(plan_, own_, keys, k);
        pairs += before && in_band(own_, distance) ? 1 : 0;
      }
    }
    return pairs;
  }

  const DevicePlan& plan_;
  const AttentionTile& own_;
  Part queries_;
};

}  // namespace

BlockCounts count_blocks(const DevicePlan& plan) {
  BlockCounts counts;
  for (std::int64_t i = 0; i < plan.tile_count; ++i) Counter(plan, plan.tiles[i]).add_to(counts);
  return counts;
}

}  // namespace flywheel::cuda
