#pragma once

#include <cstdint>
#include <vector>

#include "backend/op_args.h"
#include "core/thread_pool.h"

namespace flywheel::cpu {

// Ranks in a tile of the plans that these kernels take.
constexpr std::int64_t kAttentionTile = 64;

// Scratch memory of the attention kernels, O(tokens) a thread. Grows when a plan first needs more.
class AttentionWorkspace {
 public:
};

void attention_forward(const AttentionForward& args, ThreadPool& pool,
                       AttentionWorkspace& workspace);
// dk and dv sum over the query heads that share them. Same bits at any number of threads.
void attention_backward(const AttentionBackward& args, ThreadPool& pool,
                        AttentionWorkspace& workspace);

}  // namespace flywheel::cpu
