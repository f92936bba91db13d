#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cpu/attention_tasks.h"

namespace flywheel::cpu {

// Cuts a thread's scratch memory into buffers, each on a cache line of its own. Over a null base it
// only counts.
class ScratchCutter {
 public:
  explicit ScratchCutter(float* base) : base_(base) {}

  float* take(std::int64_t floats) {
    float* buffer = base_ == nullptr ? nullptr : base_ + used_;
    // A line between buffers: sizes are often powers of two, and their rows would share cache sets.
    used_ += (floats + 15) / 16 * 16 + 16;
    return buffer;
  }
  std::int32_t* take_integers(std::int64_t count) {
    static_assert(sizeof(std::int32_t) == sizeof(float));
    return reinterpret_cast<std::int32_t*>(take(count));
  }
  std::int64_t used() const { return used_; }

 private:
  float* base_;
  std::int64_t used_ = 0;
};

// The buffers of a thread. "panels" are tiles with the queries side by side,
// [width][size][kAttentionTile / width].
struct ForwardBuffers {
  struct QueryTile {
    float* q_panels;
    float* out_panels;
  };
  float* k_ring;  // [ring tiles][kAttentionTile][size], as v_ring
  float* v_ring;
  std::array<QueryTile, kMaxQueryGroup> tiles;
  float* scores;
  float* zeros;  // a row to read where a tile has none
  float* sink;   // and one to write

  ForwardBuffers(ScratchCutter& cutter, std::int64_t size, std::int64_t ring_tiles) {
    const std::int64_t tile = kAttentionTile * size;
    k_ring = cutter.take(ring_tiles * tile);
    v_ring = cutter.take(ring_tiles * tile);
    for (QueryTile& query : tiles) query = {cutter.take(tile), cutter.take(tile)};
    scores = cutter.take(kAttentionTile * kAttentionTile);
    zeros = cutter.take(size);
    sink = cutter.take(size);
  }
};

// How much moba has to choose in a sequence.
struct ChoiceShape {
  std::int64_t queries;  // whole tiles
  std::int64_t blocks;   // mean keys, in whole tiles
  std::int64_t places;   // earlier blocks that a query sees

  ChoiceShape(const AttentionPattern& pattern, std::int64_t length)
      : queries(whole_tiles(length)),
        blocks(whole_tiles((length - 1) / pattern.block)),
        places(std::min(pattern.top_k, blocks) - 1) {}

  static std::int64_t whole_tiles(std::int64_t n) {
    return (n + kAttentionTile - 1) / kAttentionTile * kAttentionTile;
  }
};

struct ChoiceBuffers {
  float* mean_keys;       // [blocks][size]
  float* best;            // [places][kAttentionTile], scores of a panel's best blocks
  std::int32_t* chosen;   // [places][queries], their numbers; -1: none
  std::int32_t* starts;   // [blocks + 2], where a block's queries begin
  std::int32_t* queries;  // [places * queries], by block
  float* q_panels;        // of use to others once queries have chosen, as are the scores
  float* scores;

  ChoiceBuffers(ScratchCutter& cutter, std::int64_t size, const ChoiceShape& shape) {
    mean_keys = cutter.take(shape.blocks * size);
    best = cutter.take(shape.places * kAttentionTile);
    chosen = cutter.take_integers(shape.places * shape.queries);
    starts = cutter.take_integers(shape.blocks + 2);
    queries = cutter.take_integers(shape.places * shape.queries);
    q_panels = cutter.take(kAttentionTile * size);
    scores = cutter.take(kAttentionTile * kAttentionTile);
  }
};

struct ChosenForwardBuffers {
  ChoiceBuffers choice;
  float* max;  // [queries], of the running softmax
  float* sum;
  float* k;  // [kAttentionTile][size]
  float* v;
  float* out_panels;
  float* zeros;
  float* sink;

  ChosenForwardBuffers(ScratchCutter& cutter, std::int64_t size, const ChoiceShape& shape)
      : choice(cutter, size, shape) {
    const std::int64_t tile = kAttentionTile * size;
    max = cutter.take(shape.queries);
    sum = cutter.take(shape.queries);
    k = cutter.take(tile);
    v = cutter.take(tile);
    out_panels = cutter.take(tile);
    zeros = cutter.take(size);
    sink = cutter.take(size);
  }
};

struct BackwardBuffers {
  struct QueryTile {
    float* q_panels;
    float* dout_panels;
    float* dq_panels;
    float* q_rows;  // times scale
    float* dout_rows;
  };
  float* k_ring;  // [ring tiles][kAttentionTile][size], as the other rings
  float* v_ring;
  float* dk_ring;
  float* dv_ring;
  std::array<QueryTile, kMaxQueryGroup> tiles;
  float* weights;  // all panels
  float* dscores;  // all panels
  float* zeros;
  float* sink;

  BackwardBuffers(ScratchCutter& cutter, std::int64_t size, std::int64_t ring_tiles) {
    const std::int64_t tile = kAttentionTile * size;
    k_ring = cutter.take(ring_tiles * tile);
    v_ring = cutter.take(ring_tiles * tile);
    dk_ring = cutter.take(ring_tiles * tile);
    dv_ring = cutter.take(ring_tiles * tile);
    for (QueryTile& query : tiles) {
      query = {cutter.take(tile), cutter.take(tile), cutter.take(tile), cutter.take(tile),
               cutter.take(tile)};
    }
    weights = cutter.take(kAttentionTile * kAttentionTile);
    dscores = cutter.take(kAttentionTile * kAttentionTile);
    zeros = cutter.take(size);
    sink = cutter.take(size);
  }
};

struct ChosenBackwardBuffers {
  ChoiceBuffers choice;
  BackwardBuffers::QueryTile tile;
  float* delta;  // [queries]
  float* k;      // [kAttentionTile][size]
  float* v;
  float* dk;  // [keys of a block, in whole tiles][size]
  float* dv;
  float* weights;  // all panels
  float* dscores;  // all panels
  float* zeros;
  float* sink;

  ChosenBackwardBuffers(ScratchCutter& cutter, std::int64_t size, const ChoiceShape& shape,
                        std::int64_t block)
      : choice(cutter, size, shape) {
    const std::int64_t rows = kAttentionTile * size;
    const std::int64_t keys = ChoiceShape::whole_tiles(block) * size;
    tile = {choice.q_panels, cutter.take(rows), cutter.take(rows), cutter.take(rows),
            cutter.take(rows)};
    delta = cutter.take(shape.queries);
    k = cutter.take(rows);
    v = cutter.take(rows);
    dk = cutter.take(keys);
    dv = cutter.take(keys);
    weights = cutter.take(kAttentionTile * kAttentionTile);
    dscores = cutter.take(kAttentionTile * kAttentionTile);
    zeros = cutter.take(size);
    sink = cutter.take(size);
  }
};

}  // namespace flywheel::cpu
