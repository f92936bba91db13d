#pragma once

#include <cstdint>

#include "cuda/kernels/attention_plan.h"

namespace flywheel::cuda {

// What the tensor-core kernels do for one head in one pass over queries, in blocks of 16 queries by
// 16 keys.
struct BlockCounts {
  std::int64_t visited = 0;   // pass through shared memory
  std::int64_t executed = 0;  // are computed
  std::int64_t masked = 0;    // of these, those with pairs to hide
  double visible = 0;         // pairs that see each other / 256
};

// Counts on the host, with the kernels' own rules (attention_blocks.h); so the lists of the plan
// are the host's.
BlockCounts count_blocks(const DevicePlan& plan);

}  // namespace flywheel::cuda
