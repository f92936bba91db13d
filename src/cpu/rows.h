#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>

#include "core/thread_pool.h"
#include "cpu/memory.h"

namespace flywheel::cpu {

// Adds to each destination [columns] the sum over [0, rows) of what body() finds, with the same
// bits at any number of threads: rows fall into fixed blocks, body(begin, end, partial) adds the
// block's sums to the zeroed partial [destinations * columns], and the partials are added in the
// order of the blocks.
void sum_over_row_blocks(std::int64_t rows, std::int64_t columns,
                         std::initializer_list<float*> destinations,
                         const std::function<void(std::int64_t, std::int64_t, float*)>& body,
                         ThreadPool& pool, const Workspace& workspace);

// As many rows of this width as make a thread's share worth waking it.
std::int64_t row_grain(std::int64_t columns);

// Elements of a flat array, likewise.
inline constexpr std::int64_t kElementGrain = 16 * 1024;

// Error Shape unless all of the i32 `indices` are in [lowest, limit). `what` names op and argument.
void check_indices(const char* what, const TensorView& indices, std::int64_t limit,
                   std::int32_t lowest = 0);

}  // namespace flywheel::cpu
