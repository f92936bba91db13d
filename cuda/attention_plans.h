#pragma once

#include <map>
#include <memory>
#include <vector>

#include "attention/plan.h"
#include "cuda/kernels/attention_counts.h"
#include "cuda/kernels/attention_plan.h"
#include "cuda/memory.h"
#include "cuda/uploads.h"

namespace flywheel::cuda {

// What the kernels need from `plan`: its tiles, in the order in which blocks take them, the longest
// rows of full attention first. Returns the plan's even_tokens.
std::int64_t list_tiles(const AttentionPlan& plan, std::vector<AttentionTile>& tiles);

// Of a plan with tiles of kAttentionTile.
BlockCounts count_blocks(const AttentionPlan& plan);

// The device's copies of plans, by address. Memory grows only when a plan first needs more.
class AttentionPlans {
 public:
  AttentionPlans();
  ~AttentionPlans();

  // Queues the copy; work queued on the stream before still sees the old one.
  void upload(const AttentionPlan& plan, Uploads& uploads, const Stream& stream);
  // Error Internal if it was not uploaded.
  DevicePlan at(const AttentionPlan& plan) const;

 private:
  struct Copy;
  std::vector<AttentionTile> tiles_;
  std::map<const AttentionPlan*, std::unique_ptr<Copy>> copies_;
};

}  // namespace flywheel::cuda
