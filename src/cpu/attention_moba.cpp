#include "cpu/attention_moba.h"

#include <algorithm>
#include <cmath>

#include "attention/plan.h"
#include "cpu/attention_scratch.h"
#include "cpu/attention_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_moba.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before highway.h.
#include "cpu/attention_choice-inl.h"
#include "cpu/attention_products-inl.h"
#include "cpu/attention_softmax-inl.h"
#include "cpu/attention_tiles-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Each block attends to all queries that chose it, in groups whose running softmax and output rows
// are gathered and scattered. A query's arithmetic does not depend on the group it is in.
template <class Size>
class ChosenBlocks {
  static constexpr int kVectors = kNarrowVectors;
  static constexpr std::int64_t kWidth = kVectors * kLanes;

 public:
  ChosenBlocks(Size size, const AttentionForward& args, const AttentionTask& task,
               const ChoiceShape& shape, const ChosenForwardBuffers& buffers)
      : size_(size),
        scale_(args.scale),
        block_(args.plan->pattern().block),
        length_(args.plan->length(task.sequence)),
        begin_(task.first_tile * kTile),
        end_(std::min(length_, (task.last_tile + 1) * kTile)),
        buffers_(buffers),
        choice_(size, block_, begin_, end_, shape, buffers.choice) {
    const std::int64_t token = args.plan->cu_seqlens()[static_cast<std::size_t>(task.sequence)];
    const std::int64_t key_head = task.head / (args.q.shape[1] / args.k.shape[1]);
    q_ = head_rows<const float>(args.q, token, task.head);
    k_ = head_rows<const float>(args.k, token, key_head);
    v_ = head_rows<const float>(args.v, token, key_head);
    out_ = head_rows(args.out, token, task.head);
    lse_ = args.lse.f32() + task.head * args.q.shape[0] + token;
    std::fill_n(buffers.zeros, static_cast<std::int64_t>(size), 0.0F);
  }

  void run() {
    choice_.average_keys(k_);
    choice_.choose(q_);
    for (std::int64_t i = begin_; i < end_; ++i) {
      buffers_.max[i - begin_] = lse_[i] * kLog2E;
      buffers_.sum[i - begin_] = 1;
    }
    for (std::int64_t b = 0; b < choice_.earlier_blocks(); ++b) {
      choice_.for_choosers(b, [&](const std::int32_t* queries, std::int32_t count)
                                  HWY_ATTR { attend(b * block_, queries, count); });
    }
    for (std::int64_t i = std::max(begin_, block_); i < end_; ++i) {
      const float sum = buffers_.sum[i - begin_];
      scale_row(size_, 1 / sum, out_.row(i));
      lse_[i] = buffers_.max[i - begin_] * kLn2 + std::log(sum);
    }
  }

 private:
  // Adds the block from key `first_key` on to some queries.
  HWY_NOINLINE void attend(std::int64_t first_key, const std::int32_t* queries,
                           std::int32_t count) {
    const std::int64_t padded = (count + kWidth - 1) / kWidth * kWidth;
    const float* q_rows[kTile];
    float* out_rows[kTile];
    alignas(64) float max[kTile];
    alignas(64) float sum[kTile];
    alignas(64) float ones[kTile];
    for (std::int64_t r = 0; r < padded; ++r) {
      const std::int64_t i = r < count ? queries[r] : -1;
      q_rows[r] = i >= 0 ? q_.row(i) : buffers_.zeros;
      out_rows[r] = i >= 0 ? out_.row(i) : buffers_.sink;
      max[r] = i >= 0 ? buffers_.max[i - begin_] : kNoMaximum;
      sum[r] = i >= 0 ? buffers_.sum[i - begin_] : 0;
      ones[r] = 1;
    }
    rows_to_panels<kVectors>(size_, q_rows, scale_ * kLog2E, buffers_.choice.q_panels, padded);
    rows_to_panels<kVectors>(size_, out_rows, 1.0F, buffers_.out_panels, padded);
    for (std::int64_t key = first_key; key < first_key + block_; key += kTile) {
      const std::int64_t rows = std::min(kTile, first_key + block_ - key);
      const float* k = contiguous_tile(size_, k_, key, rows, length_, buffers_.k);
      const float* v = contiguous_tile(size_, v_, key, rows, length_, buffers_.v);
      for (std::int64_t lane = 0; lane < padded; lane += kWidth) {
        multiply_keys<kVectors>(size_, k, buffers_.choice.q_panels + lane * size_, 0, rows,
                                buffers_.choice.scores);
        F32Vector correction[kVectors];
        softmax_rows<kVectors>(0, rows, buffers_.choice.scores, max + lane, sum + lane, correction);
        multiply_values<kVectors>(size_, v, buffers_.choice.scores, rows, correction,
                                  buffers_.out_panels + lane * size_);
      }
    }
    panels_to_rows<kVectors, false>(size_, buffers_.out_panels, ones, out_rows, padded);
    for (std::int32_t r = 0; r < count; ++r) {
      buffers_.max[queries[r] - begin_] = max[r];
      buffers_.sum[queries[r] - begin_] = sum[r];
    }
  }

  Size size_;
  float scale_;
  std::int64_t block_;
  std::int64_t length_;  // of the sequence
  std::int64_t begin_;   // of the task's queries
  std::int64_t end_;
  ChosenForwardBuffers buffers_;
  BlockChoice<Size> choice_;
  HeadRows<const float> q_{}, k_{}, v_{};
  HeadRows<float> out_{};
  float* lse_;
};

template <int kSize>
void run_chosen_blocks(const AttentionForward& args, const AttentionTask& task, float* scratch) {
  const HeadSize<kSize> size{args.q.shape[2]};
  const ChoiceShape shape(args.plan->pattern(), args.plan->length(task.sequence));
  ScratchCutter cutter(scratch);
  const ChosenForwardBuffers buffers(cutter, size, shape);
  ChosenBlocks<HeadSize<kSize>>(size, args, task, shape, buffers).run();
}

void add_chosen_blocks_task(const AttentionForward& args, const AttentionTask& task,
                            float* scratch) {
#if !FLYWHEEL_ANY_SIZE_ONLY
  const std::int64_t size = args.q.shape[2];
  if (size == 64) return run_chosen_blocks<64>(args, task, scratch);
  if (size == 128) return run_chosen_blocks<128>(args, task, scratch);
#endif
  run_chosen_blocks<0>(args, task, scratch);
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {
namespace {

HWY_EXPORT(add_chosen_blocks_task);

}  // namespace

void add_chosen_blocks(const AttentionForward& args, const AttentionTask& task, float* scratch) {
  if (!chooses_blocks(args.plan->pattern(), args.plan->length(task.sequence))) return;
  HWY_DYNAMIC_DISPATCH(add_chosen_blocks_task)(args, task, scratch);
}

std::int64_t chosen_blocks_floats(const AttentionForward& args) {
  std::int64_t floats = 0;
  for (std::int64_t s = 0; s < args.plan->sequences(); ++s) {
    if (!chooses_blocks(args.plan->pattern(), args.plan->length(s))) continue;
    ScratchCutter counter(nullptr);
    ChosenForwardBuffers(counter, args.q.shape[2],
                         ChoiceShape(args.plan->pattern(), args.plan->length(s)));
    floats = std::max(floats, counter.used());
  }
  return floats;
}

}  // namespace flywheel::cpu
#endif
