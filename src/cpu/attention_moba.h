#pragma once

#include <cstdint>

#include "backend/op_args.h"
#include "cpu/attention.h"

namespace flywheel::cpu {

// moba: the queries of a task have attended to their own blocks, and `out` and `lse` hold what came
// of it; chooses each query's earlier blocks and adds them (docs/attention.md). Nothing to do for
// other patterns.
void add_chosen_blocks(const AttentionForward& args, const AttentionTask& task, float* scratch);

// The scratch memory that it needs.
std::int64_t chosen_blocks_floats(const AttentionForward& args);

}  // namespace flywheel::cpu
