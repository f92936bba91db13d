#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/op_args.h"
#include "core/thread_pool.h"

namespace flywheel::cpu {

// Ranks in a tile of the plans that these kernels take.
constexpr std::int64_t kAttentionTile = 64;

// Some query tiles of one head in one sequence: what a thread works on at a time.
struct AttentionTask {
  std::int32_t sequence;
  std::int32_t head;
  std::int32_t first_tile;
  std::int32_t last_tile;  // inclusive
  double cost;
};

// Scratch memory of the attention kernels, O(tokens) a thread. Grows when a plan first needs more.
class AttentionWorkspace {
 public:
  AttentionWorkspace();
  ~AttentionWorkspace();

  // At least `floats` of scratch for each of `threads` threads, aligned to cache lines.
  void reserve(int threads, std::int64_t floats);
  float* scratch(int thread) const { return scratch_[static_cast<std::size_t>(thread)].get(); }
  std::vector<AttentionTask>& tasks() { return tasks_; }

 private:
  struct AlignedDelete {
    void operator()(float* memory) const;
  };
  std::vector<std::unique_ptr<float[], AlignedDelete>> scratch_;
  std::int64_t floats_ = 0;
  std::vector<AttentionTask> tasks_;
};

// Softmax attention and its gradient with online softmax over tiles (Dao et al. 2022), in time and
// memory proportional to the visible pairs and to the tokens. The plan's tile is kAttentionTile;
// the head size a multiple of 8. The same bits at any number of threads; a sequence's results do
// not depend on its neighbours.
void attention_forward(const AttentionForward& args, ThreadPool& pool,
                       AttentionWorkspace& workspace);
// dk and dv sum over the query heads that share them. RoPE's positions are within its tables.
void attention_backward(const AttentionBackward& args, ThreadPool& pool,
                        AttentionWorkspace& workspace);

}  // namespace flywheel::cpu
