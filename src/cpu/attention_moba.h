#pragma once

#include <cstdint>

#include "attention/pattern.h"
#include "backend/op_args.h"
#include "cpu/attention.h"

namespace flywheel::cpu {

// Whether queries of a sequence of that length have blocks to choose.
inline bool chooses_blocks(const AttentionPattern& pattern, std::int64_t length) {
  return pattern.kind == AttentionKind::Moba && pattern.top_k > 1 && !pattern.sees_all(length);
}

// moba: the queries of a task have attended to their own blocks, and `out` and `lse` hold what came
// of it; chooses each query's earlier blocks and adds them (docs/attention.md). Nothing to do for
// other patterns.
void add_chosen_blocks(const AttentionForward& args, const AttentionTask& task, float* scratch);
// The scratch memory that it needs.
std::int64_t chosen_blocks_floats(const AttentionForward& args);

// moba: dq, dk and dv of a task, a key head and its query heads, hold what comes of the own blocks;
// chooses as forward did, adds what comes of the earlier blocks, and turns dq and dk back if RoPE's
// tables are given. Nothing to do where queries choose no blocks.
void add_chosen_gradients(const AttentionBackward& args, const AttentionTask& task, float* scratch);
std::int64_t chosen_gradients_floats(const AttentionBackward& args);

}  // namespace flywheel::cpu
