#include <algorithm>

#include "attention/plan.h"
#include "cpu/attention_moba.h"
#include "cpu/attention_scratch.h"
#include "cpu/attention_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_moba_backward.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before highway.h.
#include "cpu/attention_choice-inl.h"
#include "cpu/attention_gradients-inl.h"
#include "cpu/attention_products-inl.h"
#include "cpu/attention_tiles-inl.h"
#include "cpu/simd_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The queries of one head.
struct ChosenQueries {
  HeadRows<const float> q, dout, out;
  HeadRows<float> dq;
  const float* lse;
};

// For each query head of a key head, in order: each block meets all queries that chose it, in
// groups that are gathered to a tile; what they give to the block's keys and values is summed
// before it is added to dk and dv.
template <class Size>
class ChosenGradients {
  static constexpr int kVectors = kNarrowVectors;
  static constexpr std::int64_t kWidth = kVectors * kLanes;

 public:
  ChosenGradients(Size size, const AttentionBackward& args, const AttentionTask& task,
                  const ChoiceShape& shape, const ChosenBackwardBuffers& buffers)
      : size_(size),
        args_(args),
        task_(task),
        block_(args.plan->pattern().block),
        length_(args.plan->length(task.sequence)),
        token_(args.plan->cu_seqlens()[static_cast<std::size_t>(task.sequence)]),
        buffers_(buffers),
        choice_(size, block_, 0, length_, shape, buffers.choice),
        k_(head_rows<const float>(args.k, token_, task.head)),
        v_(head_rows<const float>(args.v, token_, task.head)),
        dk_(head_rows(args.dk, token_, task.head)),
        dv_(head_rows(args.dv, token_, task.head)),
        rope_(rope_rows(args, token_)) {
    std::fill_n(buffers.zeros, static_cast<std::int64_t>(size), 0.0F);
    std::fill_n(buffers.sink, static_cast<std::int64_t>(size), 0.0F);
  }

  void run() {
    choice_.average_keys(k_);
    const std::int64_t ratio = args_.q.shape[1] / args_.k.shape[1];
    for (std::int64_t i = 0; i < ratio; ++i) run_head(queries_of(task_.head * ratio + i));
    turn_back(dk_);
  }

 private:
  ChosenQueries queries_of(std::int64_t head) const {
    return {head_rows<const float>(args_.q, token_, head),
            head_rows<const float>(args_.dout, token_, head),
            head_rows<const float>(args_.out, token_, head), head_rows(args_.dq, token_, head),
            args_.lse.f32() + head * args_.q.shape[0] + token_};
  }

  void run_head(const ChosenQueries& queries) {
    choice_.choose(queries.q);
    for (std::int64_t i = block_; i < length_; ++i) {
      buffers_.delta[i] = dot_rows(size_, queries.dout.row(i), queries.out.row(i));
    }
    for (std::int64_t b = 0; b < choice_.earlier_blocks(); ++b) {
      if (!choice_.is_chosen(b)) continue;
      const std::int64_t keys = ChoiceShape::whole_tiles(block_) * size_;
      std::fill_n(buffers_.dk, keys, 0.0F);
      std::fill_n(buffers_.dv, keys, 0.0F);
      choice_.for_choosers(b, [&](const std::int32_t* choosers, std::int32_t count)
                                  HWY_ATTR { visit(queries, b * block_, choosers, count); });
      for (std::int64_t r = 0; r < block_; ++r) {
        add_row(size_, buffers_.dk + r * size_, dk_.row(b * block_ + r));
        add_row(size_, buffers_.dv + r * size_, dv_.row(b * block_ + r));
      }
    }
    turn_back(queries.dq);
  }

  void turn_back(const HeadRows<float>& rows) const {
    if (!rope_) return;
    for (std::int64_t i = 0; i < length_; ++i) rope_.turn_back(rows.row(i), i, size_);
  }

  // The block from key `first_key` on and some of its queries.
  HWY_NOINLINE void visit(const ChosenQueries& queries, std::int64_t first_key,
                          const std::int32_t* choosers, std::int32_t count) {
    const std::int64_t padded = (count + kWidth - 1) / kWidth * kWidth;
    const BackwardBuffers::QueryTile& tile = buffers_.tile;
    const float* q_rows[kTile];
    const float* dout_rows[kTile];
    float* dq_rows[kTile];
    alignas(64) float lse[kTile];
    alignas(64) float delta[kTile];
    alignas(64) float factor[kTile];
    for (std::int64_t r = 0; r < padded; ++r) {
      const std::int64_t i = r < count ? choosers[r] : -1;
      q_rows[r] = i >= 0 ? queries.q.row(i) : buffers_.zeros;
      dout_rows[r] = i >= 0 ? queries.dout.row(i) : buffers_.zeros;
      dq_rows[r] = i >= 0 ? queries.dq.row(i) : buffers_.sink;
      lse[r] = i >= 0 ? queries.lse[i] * kLog2E : 0.0F;
      delta[r] = i >= 0 ? buffers_.delta[i] : 0.0F;
      factor[r] = args_.scale;
      copy_row(size_, q_rows[r], args_.scale, tile.q_rows + r * size_);
      copy_row(size_, dout_rows[r], 1.0F, tile.dout_rows + r * size_);
    }
    rows_to_panels<kVectors>(size_, q_rows, args_.scale * kLog2E, tile.q_panels, padded);
    rows_to_panels<kVectors>(size_, dout_rows, 1.0F, tile.dout_panels, padded);
    std::fill_n(tile.dq_panels, padded * size_, 0.0F);
    for (std::int64_t key = 0; key < block_; key += kTile) {
      const std::int64_t rows = std::min(kTile, block_ - key);
      const float* k = contiguous_tile(size_, k_, first_key + key, rows, length_, buffers_.k);
      const float* v = contiguous_tile(size_, v_, first_key + key, rows, length_, buffers_.v);
      for (std::int64_t lane = 0; lane < padded; lane += kWidth) {
        score_gradients(k, v, rows, lane, lse + lane, delta + lane);
      }
      for (std::int64_t row = 0; row < rows; row += kBlockRows) {
        add_key_gradients<kVectors>(
            size_, row, {0, padded / kWidth},
            {buffers_.weights, buffers_.dscores, tile.dout_rows, tile.q_rows,
             buffers_.dv + key * size_, buffers_.dk + key * size_});
      }
    }
    panels_to_rows<kVectors, true>(size_, tile.dq_panels, factor, dq_rows, padded);
  }

  // Of the panel from query `lane` on and a tile of keys; adds to its dq.
  HWY_INLINE void score_gradients(const float* k, const float* v, std::int64_t rows,
                                  std::int64_t lane, const float* lse, const float* delta) {
    float* weights = buffers_.weights + lane * kTile;
    float* dscores = buffers_.dscores + lane * kTile;
    multiply_keys<kVectors>(size_, k, buffers_.tile.q_panels + lane * size_, 0, rows, weights);
    multiply_keys<kVectors>(size_, v, buffers_.tile.dout_panels + lane * size_, 0, rows, dscores);
    score_gradient_rows<kVectors>(0, rows, lse, delta, weights, dscores);
    const F32Vector one = hn::Set(F32(), 1.0F);
    const F32Vector no_correction[2] = {one, one};
    multiply_values<kVectors>(size_, k, dscores, rows, no_correction,
                              buffers_.tile.dq_panels + lane * size_);
  }

  Size size_;
  const AttentionBackward& args_;
  AttentionTask task_;
  std::int64_t block_;
  std::int64_t length_;  // of the sequence
  std::int64_t token_;   // its first one
  ChosenBackwardBuffers buffers_;
  BlockChoice<Size> choice_;
  HeadRows<const float> k_, v_;
  HeadRows<float> dk_, dv_;
  RopeRows rope_;
};

template <int kSize>
void run_chosen_gradients(const AttentionBackward& args, const AttentionTask& task,
                          float* scratch) {
  const HeadSize<kSize> size{args.q.shape[2]};
  const AttentionPattern& pattern = args.plan->pattern();
  const ChoiceShape shape(pattern, args.plan->length(task.sequence));
  ScratchCutter cutter(scratch);
  const ChosenBackwardBuffers buffers(cutter, size, shape, pattern.block);
  ChosenGradients<HeadSize<kSize>>(size, args, task, shape, buffers).run();
}

void add_chosen_gradients_task(const AttentionBackward& args, const AttentionTask& task,
                               float* scratch) {
#if !FLYWHEEL_ANY_SIZE_ONLY
  const std::int64_t size = args.q.shape[2];
  if (size == 64) return run_chosen_gradients<64>(args, task, scratch);
  if (size == 128) return run_chosen_gradients<128>(args, task, scratch);
#endif
  run_chosen_gradients<0>(args, task, scratch);
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {
namespace {

HWY_EXPORT(add_chosen_gradients_task);

}  // namespace

void add_chosen_gradients(const AttentionBackward& args, const AttentionTask& task,
                          float* scratch) {
  if (!chooses_blocks(args.plan->pattern(), args.plan->length(task.sequence))) return;
  HWY_DYNAMIC_DISPATCH(add_chosen_gradients_task)(args, task, scratch);
}

std::int64_t chosen_gradients_floats(const AttentionBackward& args) {
  const AttentionPattern& pattern = args.plan->pattern();
  std::int64_t floats = 0;
  for (std::int64_t s = 0; s < args.plan->sequences(); ++s) {
    const std::int64_t length = args.plan->length(s);
    if (!chooses_blocks(pattern, length)) continue;
    ScratchCutter counter(nullptr);
    ChosenBackwardBuffers(counter, args.q.shape[2], ChoiceShape(pattern, length), pattern.block);
    floats = std::max(floats, counter.used());
  }
  return floats;
}

}  // namespace flywheel::cpu
#endif
