#include "cpu/attention_moba.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/plan.h"
#include "cpu/attention_scratch.h"
#include "cpu/attention_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_moba.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before highway.h.
#include "cpu/attention_products-inl.h"
#include "cpu/attention_softmax-inl.h"
#include "cpu/attention_tiles-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Queries choose blocks by the products with the blocks' mean keys; then each block attends to all
// queries that chose it, in groups whose running softmax and output rows are gathered and
// scattered. A query's arithmetic does not depend on the group it is in.
template <class Size>
class ChosenBlocks {
  static constexpr int kVectors = kNarrowVectors;
  static constexpr std::int64_t kWidth = kVectors * kLanes;

 public:
  ChosenBlocks(Size size, const AttentionForward& args, const AttentionTask& task,
               const ChoiceShape& shape, const ChoiceBuffers& buffers)
      : size_(size),
        scale_(args.scale),
        block_(args.plan->pattern().block),
        length_(args.plan->length(task.sequence)),
        begin_(task.first_tile * kTile),
        end_(std::min(length_, (task.last_tile + 1) * kTile)),
        shape_(shape),
        buffers_(buffers) {
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
    const std::int64_t blocks = (end_ - 1) / block_;  // that are earlier ones of some query
    average_keys(blocks);
    for (std::int64_t first = begin_; first < end_; first += kTile) choose(first);
    group_by_block(blocks);
    for (std::int64_t i = begin_; i < end_; ++i) {
      buffers_.max[i - begin_] = lse_[i] * kLog2E;
      buffers_.sum[i - begin_] = 1;
    }
    for (std::int64_t b = 0; b < blocks; ++b) {
      for (std::int32_t g = buffers_.starts[b]; g < buffers_.starts[b + 1]; g += kTile) {
        const std::int32_t count = std::min<std::int32_t>(kTile, buffers_.starts[b + 1] - g);
        attend(b * block_, buffers_.queries + g, count);
      }
    }
    for (std::int64_t i = std::max(begin_, block_); i < end_; ++i) {
      const float sum = buffers_.sum[i - begin_];
      scale_row(size_, 1 / sum, out_.row(i));
      lse_[i] = buffers_.max[i - begin_] * kLn2 + std::log(sum);
    }
  }

 private:
  void average_keys(std::int64_t blocks) {
    const float share = 1.0F / static_cast<float>(block_);
    for (std::int64_t b = 0; b < blocks; ++b) {
      float* mean = buffers_.mean_keys + b * size_;
      std::fill_n(mean, static_cast<std::int64_t>(size_), 0.0F);
      for (std::int64_t j = b * block_; j < (b + 1) * block_; ++j) add_row(size_, k_.row(j), mean);
      scale_row(size_, share, mean);
    }
  }

  // Of the queries of a tile, the best earlier blocks: chosen[place][query].
  void choose(std::int64_t first) {
    const float* rows[kTile];
    for (std::int64_t r = 0; r < kTile; ++r) rows[r] = q_.row(std::min(first + r, end_ - 1));
    rows_to_panels<kVectors>(size_, rows, 1.0F, buffers_.q_panels);
    for (std::int64_t panel = 0; panel < kTile / kWidth; ++panel) {
      const std::int64_t query = first + panel * kWidth;
      if (query < end_) choose_of_panel(query, buffers_.q_panels + panel * kWidth * size_);
    }
  }

  HWY_NOINLINE void choose_of_panel(std::int64_t query, const float* q_panel) {
    const hn::RebindToSigned<F32> di;
    std::int32_t* chosen = buffers_.chosen + (query - begin_);
    for (std::int64_t place = 0; place < shape_.places; ++place) {
      for (std::int64_t lane = 0; lane < kWidth; lane += kLanes) {
        hn::StoreU(hn::Set(di, -1), di, chosen + place * shape_.queries + lane);
        hn::StoreU(hn::Set(F32(), -std::numeric_limits<float>::infinity()), F32(),
                   buffers_.best + place * kWidth + lane);
      }
    }
    alignas(64) std::int32_t own_block[kWidth];
    for (std::int64_t lane = 0; lane < kWidth; ++lane) {
      own_block[lane] = static_cast<std::int32_t>(std::min(query + lane, end_ - 1) / block_);
    }
    const std::int64_t blocks = own_block[kWidth - 1];
    for (std::int64_t tile = 0; tile < blocks; tile += kTile) {
      const std::int64_t rows = std::min(kTile, blocks - tile);
      multiply_keys<kVectors>(size_, buffers_.mean_keys + tile * size_, q_panel, 0, rows,
                              buffers_.scores);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t lane = 0; lane < kWidth; lane += kLanes) {
          offer(static_cast<std::int32_t>(tile + r), own_block + lane,
                hn::LoadU(F32(), buffers_.scores + r * kWidth + lane), buffers_.best + lane,
                chosen + lane);
        }
      }
    }
  }

  // Puts a block where it belongs among a query's best, unless it is not an earlier one. Of equal
  // scores the lower block, which came first, stays before the other.
  HWY_INLINE void offer(std::int32_t block, const std::int32_t* own_block, F32Vector score,
                        float* best, std::int32_t* chosen) {
    const F32 d;
    const hn::RebindToSigned<F32> di;
    auto number = hn::Set(di, block);
    const auto earlier = hn::RebindMask(d, hn::Lt(number, hn::Load(di, own_block)));
    score = hn::IfThenElse(earlier, score, hn::Set(d, -std::numeric_limits<float>::infinity()));
    const float* last = best + (shape_.places - 1) * kWidth;
    if (hn::AllFalse(d, hn::Gt(score, hn::LoadU(d, last)))) return;
    auto moved = hn::MaskFromVec(hn::Zero(d));
    for (std::int64_t place = 0; place < shape_.places; ++place) {
      float* held_score = best + place * kWidth;
      std::int32_t* held_number = chosen + place * shape_.queries;
      const auto old_score = hn::LoadU(d, held_score);
      const auto old_number = hn::LoadU(di, held_number);
      moved = hn::Or(moved, hn::Gt(score, old_score));
      hn::StoreU(hn::IfThenElse(moved, score, old_score), d, held_score);
      hn::StoreU(hn::IfThenElse(hn::RebindMask(di, moved), number, old_number), di, held_number);
      score = hn::IfThenElse(moved, old_score, score);
      number = hn::IfThenElse(hn::RebindMask(di, moved), old_number, number);
    }
  }

  // Lists the queries of each block: queries[starts[b]] to queries[starts[b + 1]].
  void group_by_block(std::int64_t blocks) {
    std::int32_t* next = buffers_.starts + 1;
    std::fill_n(buffers_.starts, blocks + 2, 0);
    const auto for_each_choice = [&](const auto& f) {
      for (std::int64_t i = 0; i < end_ - begin_; ++i) {
        for (std::int64_t place = 0; place < shape_.places; ++place) {
          const std::int32_t b = buffers_.chosen[place * shape_.queries + i];
          if (b >= 0) f(b, static_cast<std::int32_t>(begin_ + i));
        }
      }
    };
    for_each_choice([&](std::int32_t b, std::int32_t) { ++next[b + 1]; });
    for (std::int64_t b = 0; b < blocks; ++b) next[b + 1] += next[b];
    for_each_choice([&](std::int32_t b, std::int32_t i) { buffers_.queries[next[b]++] = i; });
  }

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
    rows_to_panels<kVectors>(size_, q_rows, scale_ * kLog2E, buffers_.q_panels, padded);
    rows_to_panels<kVectors>(size_, out_rows, 1.0F, buffers_.out_panels, padded);
    for (std::int64_t key = first_key; key < first_key + block_; key += kTile) {
      const std::int64_t rows = std::min(kTile, first_key + block_ - key);
      const float* k = tile_of(k_, key, rows, buffers_.k);
      const float* v = tile_of(v_, key, rows, buffers_.v);
      for (std::int64_t lane = 0; lane < padded; lane += kWidth) {
        multiply_keys<kVectors>(size_, k, buffers_.q_panels + lane * size_, 0, rows,
                                buffers_.scores);
        F32Vector correction[kVectors];
        softmax_rows<kVectors>(0, rows, buffers_.scores, max + lane, sum + lane, correction);
        multiply_values<kVectors>(size_, v, buffers_.scores, rows, correction,
                                  buffers_.out_panels + lane * size_);
      }
    }
    panels_to_rows<kVectors, false>(size_, buffers_.out_panels, ones, out_rows, padded);
    for (std::int32_t r = 0; r < count; ++r) {
      buffers_.max[queries[r] - begin_] = max[r];
      buffers_.sum[queries[r] - begin_] = sum[r];
    }
  }

  // Rows from `first` on, one after another: kTile of them may be read. Where they lie if that is
  // possible, else a copy.
  const float* tile_of(const HeadRows<const float>& rows, std::int64_t first, std::int64_t count,
                       float* copy) const {
    if (rows.step == size_ && first + kTile <= length_) return rows.row(first);
    for (std::int64_t r = 0; r < count; ++r) {
      copy_row(size_, rows.row(first + r), 1.0F, copy + r * size_);
    }
    return copy;
  }

  Size size_;
  float scale_;
  std::int64_t block_;
  std::int64_t length_;  // of the sequence
  std::int64_t begin_;   // of the task's queries
  std::int64_t end_;
  ChoiceShape shape_;
  ChoiceBuffers buffers_;
  HeadRows<const float> q_{}, k_{}, v_{};
  HeadRows<float> out_{};
  float* lse_;
};

template <int kSize>
void run_chosen_blocks(const AttentionForward& args, const AttentionTask& task, float* scratch) {
  const HeadSize<kSize> size{args.q.shape[2]};
  const ChoiceShape shape(args.plan->pattern(), args.plan->length(task.sequence));
  ScratchCutter cutter(scratch);
  const ChoiceBuffers buffers(cutter, size, shape);
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

bool chooses_blocks(const AttentionPattern& pattern, std::int64_t length) {
  return pattern.kind == AttentionKind::Moba && pattern.top_k > 1 && !pattern.sees_all(length);
}

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
    ChoiceBuffers(counter, args.q.shape[2],
                  ChoiceShape(args.plan->pattern(), args.plan->length(s)));
    floats = std::max(floats, counter.used());
  }
  return floats;
}

}  // namespace flywheel::cpu
#endif
