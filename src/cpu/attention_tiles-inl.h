// What the forward and the backward attention kernel share: the rows of query tiles, the tiles of
// keys and values, what a panel of queries sees of a key tile, and masks. One copy for each Highway
// target.
#if defined(FLYWHEEL_CPU_ATTENTION_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLYWHEEL_CPU_ATTENTION_TILES_INL_H
#undef FLYWHEEL_CPU_ATTENTION_TILES_INL_H
#else
#define FLYWHEEL_CPU_ATTENTION_TILES_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "cpu/attention_products-inl.h"
#include "cpu/attention_tasks.h"
#include "cpu/rope-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Scores of keys that a query must not see: their weights come out as exact zeros.
constexpr float kMasked = -1e30F;

// Rows of one head in one sequence: row i at data + i * step.
template <class Float>
struct HeadRows {
  Float* data;
  std::int64_t step;

  HWY_INLINE Float* row(std::int64_t i) const { return data + i * step; }
};

template <class Float = float>
HWY_INLINE HeadRows<Float> head_rows(const TensorView& x, std::int64_t token, std::int64_t head) {
  return {x.f32() + token * x.stride(0) + head * x.stride(1), x.stride(0)};
}

// RoPE's tables at the positions of a sequence's tokens. Null in a pass that turns nothing back.
struct RopeRows {
  const float* cos = nullptr;
  const float* sin = nullptr;
  const std::int32_t* positions = nullptr;

  explicit operator bool() const { return cos != nullptr; }
  // Turns the row of the sequence's token i back.
  HWY_INLINE void turn_back(float* row, std::int64_t i, std::int64_t size) const {
    const std::int64_t half = size / 2;
    const std::int64_t at = positions[i] * half;
    rotate_head<true>(row, row, cos + at, sin + at, half);
  }
};

// Rows of sa lie where no hardware prefetcher expects them: asks for one to be brought to the
// second-level cache.
template <class Float>
HWY_INLINE void prefetch_row(const HeadRows<Float>& rows, std::int64_t i, std::int64_t size) {
  constexpr std::int64_t kLine = 16;
  const float* row = rows.row(i);
  for (std::int64_t c = 0; c < size; c += kLine) __builtin_prefetch(row + c, 0, 2);
}

// Rows of the next tiles that are prefetched in each visit of a pair of tiles.
constexpr std::int64_t kPrefetchRows = 16;

// Positions and ranks (moba: where the block begins) of the rows of a query tile. The rows beyond
// the end of the sequence repeat the last.
struct QueryRows {
  std::int64_t tile;
  std::int64_t rows;
  alignas(64) std::int32_t position[kTile];
  alignas(64) std::int32_t rank[kTile];

  void load(const AttentionSequence& sequence, std::int64_t query_tile) {
    tile = query_tile;
    rows = sequence.walk.rows(tile);
    for (std::int64_t r = 0; r < kTile; ++r) {
      const std::int64_t row = std::min(r, rows - 1);
      position[r] = static_cast<std::int32_t>(sequence.position(tile, row));
      rank[r] = sequence.ranks == nullptr ? 0 : sequence.ranks[tile * kTile + row];
      if (sequence.walk.kind() == AttentionKind::Moba) {
        rank[r] = static_cast<std::int32_t>(sequence.walk.block_begin(position[r]));
      }
    }
  }
};

// What masks need to know of a key tile.
struct KeyRows {
  std::int64_t rows;
  std::int32_t begin;             // position of row 0, where positions are consecutive
  const std::int32_t* positions;  // of each row, ascending; null where they are consecutive
  const std::int32_t* ranks;
  std::int32_t rank_shift;
  bool inside_band;

  HWY_INLINE KeyRows(const AttentionSequence& sequence, std::int64_t query_tile,
                     std::int64_t virtual_tile)
      : rank_shift(sequence.walk.rank_shift(virtual_tile)),
        inside_band(sequence.walk.inside_band(query_tile, virtual_tile)) {
    const std::int64_t tile = sequence.walk.key_tile(virtual_tile);
    rows = sequence.walk.rows(tile);
    begin = static_cast<std::int32_t>(tile * kTile);
    positions = sequence.positions == nullptr ? nullptr : sequence.positions + begin;
    ranks = sequence.ranks == nullptr ? nullptr : sequence.ranks + begin;
  }
  HWY_INLINE std::int32_t position(std::int64_t row) const {
    return positions == nullptr ? begin + static_cast<std::int32_t>(row) : positions[row];
  }
  // Rows at positions up to `last`.
  HWY_INLINE std::int64_t rows_up_to(std::int32_t last) const {
    if (positions == nullptr) return std::clamp<std::int64_t>(last + 1 - begin, 0, rows);
    std::int32_t count = 0;
    for (std::int64_t r = 0; r < rows; ++r) count += positions[r] <= last ? 1 : 0;
    return count;
  }
};

// Rows of a key tile: only [begin, end) may be visible to a panel of queries, and its queries all
// see [all_begin, all_end).
struct VisibleRows {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t all_begin;
  std::int64_t all_end;
};

template <int kVectors>
HWY_INLINE VisibleRows visible_rows(const AttentionSequence& sequence, const QueryRows& queries,
                                    std::int64_t panel, const KeyRows& keys) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  const std::int32_t first = queries.position[panel * kWidth];
  const std::int32_t last = queries.position[panel * kWidth + kWidth - 1];
  if (panel * kWidth >= queries.rows) return {0, 0, 0, 0};
  VisibleRows visible{0, keys.rows_up_to(last), 0, keys.rows_up_to(first)};
  if (keys.inside_band) return visible;
  if (sequence.walk.kind() == AttentionKind::Swa) {
    const std::int32_t window = sequence.walk.slots();
    visible.begin = keys.rows_up_to(first - window);
    visible.all_begin = keys.rows_up_to(last - window);
  } else if (sequence.walk.kind() == AttentionKind::Moba) {
    visible.begin = keys.rows_up_to(queries.rank[panel * kWidth] - 1);
    visible.all_begin = keys.rows_up_to(queries.rank[panel * kWidth + kWidth - 1] - 1);
  } else {
    visible.all_begin = visible.end;
  }
  visible.all_end = std::max(visible.all_begin, visible.all_end);
  return visible;
}

enum class MaskTest { Causal, Window, Block, Ranks };

// Sets the scores of rows [begin, end) that a query does not see to kMasked.
template <MaskTest kTest, int kVectors>
HWY_INLINE void mask_rows_by(const AttentionSequence& sequence, const QueryRows& queries,
                             std::int64_t panel, const KeyRows& keys, std::int64_t begin,
                             std::int64_t end, float* scores) {
  constexpr std::int64_t kWidth = kVectors * kLanes;
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const hn::RebindToUnsigned<F32> du;
  const auto masked = hn::Set(d, kMasked);
  const auto last_slot = hn::Set(di, sequence.walk.slots() - 1);
  const auto wrap = hn::Set(di, sequence.walk.wrap());
  for (std::int64_t v = 0; v < kVectors; ++v) {
    const std::int64_t lane = panel * kWidth + v * kLanes;
    const auto position = hn::Load(di, queries.position + lane);
    const auto rank = hn::Add(hn::Load(di, queries.rank + lane),
                              hn::Set(di, sequence.walk.offset() - keys.rank_shift));
    for (std::int64_t r = begin; r < end; ++r) {
      const auto key_position = hn::Set(di, keys.position(r));
      auto hidden = hn::Gt(key_position, position);
      if constexpr (kTest == MaskTest::Window) {
        hidden = hn::Or(hidden, hn::Gt(hn::Sub(position, key_position), last_slot));
      }
      if constexpr (kTest == MaskTest::Block) {
        hidden = hn::Or(hidden, hn::Lt(key_position, hn::Load(di, queries.rank + lane)));
      }
      if constexpr (kTest == MaskTest::Ranks) {
        // Below 0 is large as an unsigned number, so that the smallest of the three is the one on
        // the circle.
        const auto distance = hn::Sub(rank, hn::Set(di, keys.ranks[r]));
        const auto u =
            hn::Min(hn::BitCast(du, distance), hn::Min(hn::BitCast(du, hn::Add(distance, wrap)),
                                                       hn::BitCast(du, hn::Sub(distance, wrap))));
        hidden = hn::Or(
            hidden, hn::Not(hn::RebindMask(di, hn::Eq(hn::Min(u, hn::BitCast(du, last_slot)), u))));
      }
      float* place = scores + r * kWidth + v * kLanes;
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, hidden), masked, hn::LoadU(d, place)), d, place);
    }
  }
}

template <int kVectors>
HWY_INLINE void mask_rows(const AttentionSequence& sequence, const QueryRows& queries,
                          std::int64_t panel, const KeyRows& keys, std::int64_t begin,
                          std::int64_t end, float* scores) {
  if (begin >= end) return;
  if (keys.inside_band) {
    mask_rows_by<MaskTest::Causal, kVectors>(sequence, queries, panel, keys, begin, end, scores);
  } else if (sequence.walk.kind() == AttentionKind::Swa) {
    mask_rows_by<MaskTest::Window, kVectors>(sequence, queries, panel, keys, begin, end, scores);
  } else if (sequence.walk.kind() == AttentionKind::Moba) {
    mask_rows_by<MaskTest::Block, kVectors>(sequence, queries, panel, keys, begin, end, scores);
  } else {
    mask_rows_by<MaskTest::Ranks, kVectors>(sequence, queries, panel, keys, begin, end, scores);
  }
}

// Masks what needs a test among the visible rows.
template <int kVectors>
HWY_INLINE void mask_visible_rows(const AttentionSequence& sequence, const QueryRows& queries,
                                  std::int64_t panel, const KeyRows& keys,
                                  const VisibleRows& visible, float* scores) {
  mask_rows<kVectors>(sequence, queries, panel, keys, visible.begin,
                      std::min(visible.all_begin, visible.end), scores);
  mask_rows<kVectors>(sequence, queries, panel, keys, std::max(visible.begin, visible.all_end),
                      visible.end, scores);
}

// The keys, the values and perhaps their gradients of one head, tile by tile. Whole tiles whose
// rows lie one after another are used where they are, keys and gradients each for themselves;
// others pass through a ring of buffers: gathered once when the walk first needs them, their
// gradients scattered when it leaves them behind.
template <class Size>
class KeyTiles {
 public:
  struct Source {
    HeadRows<const float> k, v;
    HeadRows<float> dk{nullptr, 0}, dv{nullptr, 0};  // null in forward
    bool accumulate = false;                         // dk, dv hold something to add to
    RopeRows rope;                                   // turns dk back; null but in the last pass
  };
  struct Ring {
    std::int64_t capacity;   // tiles
    float *k, *v, *dk, *dv;  // [capacity][kTile][size]; dk, dv null in forward
  };

  // The walk will start with the keys of query tile `first_tile`.
  KeyTiles(Size size, const AttentionSequence& sequence, const Source& source, const Ring& ring,
           std::int64_t first_tile)
      : size_(size),
        sequence_(sequence),
        source_(source),
        ring_(ring),
        start_(sequence.walk.keys(first_tile).first),
        flushed_(start_),
        loaded_(start_) {
    const std::int64_t step = size;
    const bool in_order = sequence.walk.kind() != AttentionKind::Sa;
    keys_direct_ = in_order && source.k.step == step && source.v.step == step;
    gradients_direct_ = in_order && gradients() && source.dk.step == step && source.dv.step == step;
    if (gradients_direct_ && !source.accumulate) {
      const std::int64_t tiles = sequence.walk.tiles();
      const std::int64_t n = (tiles - 1) * kTile + sequence.walk.rows(tiles - 1);
      std::fill_n(source.dk.data, n * step, 0.0F);
      std::fill_n(source.dv.data, n * step, 0.0F);
    }
  }

  // Makes the virtual tiles [first, last] ready; nothing below `first` is needed any more.
  void advance(std::int64_t first, std::int64_t last) {
    for (; gradients() && flushed_ < first; ++flushed_) flush(flushed_);
    for (; loaded_ <= last; ++loaded_) load(loaded_);
  }
  void finish() {
    for (; gradients() && flushed_ < loaded_; ++flushed_) flush(flushed_);
  }

  // Prefetches rows [begin, end) of the tile that is loaded next and of the one that is flushed
  // next.
  void prefetch(std::int64_t begin, std::int64_t end) const {
    const TileWalk& walk = sequence_.walk;
    if (loaded_ <= walk.keys(walk.tiles() - 1).last) {
      const std::int64_t tile = walk.key_tile(loaded_);
      for (std::int64_t r = begin; r < std::min(end, walk.rows(tile)); ++r) {
        prefetch_row(source_.k, sequence_.position(tile, r), size_);
        prefetch_row(source_.v, sequence_.position(tile, r), size_);
      }
    }
    if (!gradients()) return;
    const std::int64_t tile = walk.key_tile(flushed_);
    for (std::int64_t r = begin; r < std::min(end, walk.rows(tile)); ++r) {
      prefetch_row(source_.dk, sequence_.position(tile, r), size_);
      prefetch_row(source_.dv, sequence_.position(tile, r), size_);
    }
  }

  HWY_INLINE const float* k(std::int64_t v) const {
    return place(v, keys_direct_, source_.k.data, ring_.k);
  }
  HWY_INLINE const float* v(std::int64_t v) const {
    return place(v, keys_direct_, source_.v.data, ring_.v);
  }
  HWY_INLINE float* dk(std::int64_t v) const {
    return place(v, gradients_direct_, source_.dk.data, ring_.dk);
  }
  HWY_INLINE float* dv(std::int64_t v) const {
    return place(v, gradients_direct_, source_.dv.data, ring_.dv);
  }

 private:
  HWY_INLINE bool gradients() const { return source_.dk.data != nullptr; }
  // Kernels read and add to whole tiles, so that the last one needs a buffer if it is short.
  HWY_INLINE bool in_place(std::int64_t virtual_tile, bool direct) const {
    return direct && sequence_.walk.rows(sequence_.walk.key_tile(virtual_tile)) == kTile;
  }
  HWY_INLINE std::int64_t slot(std::int64_t virtual_tile, bool direct) const {
    const std::int64_t turn = sequence_.walk.tiles();
    return direct ? 0 : (virtual_tile + turn) % ring_.capacity * kTile * size_;
  }
  template <class Float>
  HWY_INLINE Float* place(std::int64_t virtual_tile, bool direct, Float* source,
                          float* ring) const {
    if (!in_place(virtual_tile, direct)) return ring + slot(virtual_tile, direct);
    return source + sequence_.walk.key_tile(virtual_tile) * kTile * size_;
  }

  void load(std::int64_t virtual_tile) {
    if (!in_place(virtual_tile, keys_direct_)) gather_keys(virtual_tile);
    if (!gradients() || in_place(virtual_tile, gradients_direct_)) return;
    const std::int64_t first = slot(virtual_tile, gradients_direct_);
    std::fill_n(ring_.dk + first, kTile * size_, 0.0F);
    std::fill_n(ring_.dv + first, kTile * size_, 0.0F);
  }

  void gather_keys(std::int64_t virtual_tile) {
    const std::int64_t tile = sequence_.walk.key_tile(virtual_tile);
    const std::int64_t rows = sequence_.walk.rows(tile);
    const std::int64_t first = slot(virtual_tile, keys_direct_);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t position = sequence_.position(tile, r);
      copy_row(size_, source_.k.row(position), 1.0F, ring_.k + first + r * size_);
      copy_row(size_, source_.v.row(position), 1.0F, ring_.v + first + r * size_);
    }
    const std::int64_t padding = (kTile - rows) * size_;
    std::fill_n(ring_.k + first + rows * size_, padding, 0.0F);
    std::fill_n(ring_.v + first + rows * size_, padding, 0.0F);
  }

  void flush(std::int64_t virtual_tile) {
    if (!in_place(virtual_tile, gradients_direct_)) scatter_gradients(virtual_tile);
    if (source_.rope && is_last_visit(virtual_tile)) turn_back_keys(virtual_tile);
  }

  // On the circle a tile may come a second time.
  bool is_last_visit(std::int64_t virtual_tile) const {
    const TileWalk& walk = sequence_.walk;
    return virtual_tile + walk.tiles() > walk.keys(walk.tiles() - 1).last;
  }

  void turn_back_keys(std::int64_t virtual_tile) {
    const std::int64_t tile = sequence_.walk.key_tile(virtual_tile);
    for (std::int64_t r = 0; r < sequence_.walk.rows(tile); ++r) {
      const std::int64_t position = sequence_.position(tile, r);
      source_.rope.turn_back(source_.dk.row(position), position, size_);
    }
  }

  void scatter_gradients(std::int64_t virtual_tile) {
    const std::int64_t tile = sequence_.walk.key_tile(virtual_tile);
    const std::int64_t first = slot(virtual_tile, gradients_direct_);
    const bool seen = virtual_tile - sequence_.walk.tiles() >= start_;
    const bool add = gradients_direct_ || source_.accumulate || seen;
    for (std::int64_t r = 0; r < sequence_.walk.rows(tile); ++r) {
      const std::int64_t position = sequence_.position(tile, r);
      const float* dk = ring_.dk + first + r * size_;
      const float* dv = ring_.dv + first + r * size_;
      if (add) {
        add_row(size_, dk, source_.dk.row(position));
        add_row(size_, dv, source_.dv.row(position));
      } else {
        copy_row(size_, dk, 1.0F, source_.dk.row(position));
        copy_row(size_, dv, 1.0F, source_.dv.row(position));
      }
    }
  }

  Size size_;
  const AttentionSequence& sequence_;
  Source source_;
  Ring ring_;
  std::int64_t start_;    // first virtual tile of the walk
  std::int64_t flushed_;  // virtual tiles below are flushed
  std::int64_t loaded_;   // virtual tiles below are loaded
  bool keys_direct_ = false;
  bool gradients_direct_ = false;
};

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
