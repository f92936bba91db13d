#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/plan.h"
#include "attention/tile_walk.h"
#include "cpu/attention.h"

namespace flywheel::cpu {

// One sequence of a plan, as the kernels walk it.
struct AttentionSequence {
  TileWalk walk;
  std::int64_t begin;             // its first token in the batch
  const std::int32_t* positions;  // sa: of each slot, in the sequence; else null
  const std::int32_t* ranks;      // sa: of each slot; else null

  AttentionSequence(const AttentionPlan& plan, std::int64_t sequence);

  // Position in the sequence of a tile's row.
  std::int64_t position(std::int64_t tile, std::int64_t row) const {
    const std::int64_t slot = tile * kAttentionTile + row;
    return positions == nullptr ? slot : positions[slot];
  }
};

constexpr std::int64_t kMaxQueryGroup = 4;

// Query tiles that share each visit of a key tile: more save memory traffic where the keys outgrow
// the caches.
std::int64_t query_group(const TileWalk& walk);

// Lists the plan's tasks, the most expensive first: every (sequence, head), cut into runs of query
// tiles if that many threads would not be busy otherwise (`threads` 1: never cut). Results do not
// depend on the cuts.
void list_tasks(const AttentionPlan& plan, std::int64_t heads, int threads,
                std::vector<AttentionTask>& tasks);

// Key tiles that a thread holds in buffers at a time, given the tensors with the rows of keys.
std::int64_t ring_capacity(const AttentionPlan& plan, std::span<const TensorView* const> key_rows);

}  // namespace flywheel::cpu
