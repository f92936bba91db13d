#include "attention/plan.h"
#include "cpu/attention.h"
#include "cpu/attention_moba.h"
#include "cpu/attention_scratch.h"
#include "cpu/attention_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_backward.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before highway.h.
#include "cpu/attention_gradients-inl.h"
#include "cpu/attention_products-inl.h"
#include "cpu/attention_tiles-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct BackwardTile : QueryRows {
  BackwardBuffers::QueryTile buffers;
  alignas(64) float lse[kTile];    // in base 2
  alignas(64) float delta[kTile];  // dout . out
};

// The gradient with the weights recomputed tile by tile (Dao et al. 2022): for scores s, weights p
// and ds = p (dout . v - delta): dv += p dout, dk += scale ds q, dq += scale ds k.
template <class Size, int kVectors>
class BackwardTask {
  static constexpr std::int64_t kWidth = kVectors * kLanes;
  static constexpr std::int64_t kPanels = kTile / kWidth;

 public:
  // `rope` turns dq and dk back, if their sums are complete with this pass.
  BackwardTask(Size size, const AttentionBackward& args, const AttentionSequence& sequence,
               const RopeRows& rope, std::int64_t head, std::int64_t ring_tiles,
               const BackwardBuffers& buffers)
      : size_(size),
        scale_(args.scale),
        accumulate_(args.accumulate),
        sequence_(sequence),
        buffers_(buffers),
        q_(head_rows<const float>(args.q, sequence.begin, head)),
        out_(head_rows<const float>(args.out, sequence.begin, head)),
        dout_(head_rows<const float>(args.dout, sequence.begin, head)),
        dq_(head_rows(args.dq, sequence.begin, head)),
        lse_(args.lse.f32() + head * args.q.shape[0] + sequence.begin),
        rope_(rope),
        keys_(size, sequence, source(args, head),
              {ring_tiles, buffers.k_ring, buffers.v_ring, buffers.dk_ring, buffers.dv_ring}, 0) {
    for (std::size_t g = 0; g < buffers.tiles.size(); ++g) tiles_[g].buffers = buffers.tiles[g];
    std::fill_n(buffers.zeros, static_cast<std::int64_t>(size), 0.0F);
  }

  void run() {
    const std::int64_t group = query_group(sequence_.walk);
    for (std::int64_t first = 0; first < sequence_.walk.tiles(); first += group) {
      const std::int64_t count = std::min(group, sequence_.walk.tiles() - first);
      for (std::int64_t g = 0; g < count; ++g) start(tiles_[g], first + g);
      const std::int64_t first_key = sequence_.walk.keys(first).first;
      const std::int64_t last_key = sequence_.walk.keys(first + count - 1).last;
      keys_.advance(first_key, last_key);
      for (std::int64_t v = first_key; v <= last_key; ++v) {
        for (std::int64_t g = 0; g < count; ++g) {
          const TileWalk::Interval keys = sequence_.walk.keys(first + g);
          if (keys.first <= v && v <= keys.last) visit(tiles_[g], v);
          if (sequence_.positions != nullptr)
            prefetch(first + count, (v - first_key) * kPrefetchRows);
        }
      }
      for (std::int64_t g = 0; g < count; ++g) finish(tiles_[g]);
    }
    keys_.finish();
  }

 private:
  // Prefetches some rows, from row `begin`, of the next query and key tiles.
  void prefetch(std::int64_t tile, std::int64_t begin) {
    const std::int64_t end = begin + kPrefetchRows;
    keys_.prefetch(begin, end);
    if (tile == sequence_.walk.tiles()) return;
    for (std::int64_t r = begin; r < std::min(end, sequence_.walk.rows(tile)); ++r) {
      const std::int64_t position = sequence_.position(tile, r);
      prefetch_row(q_, position, size_);
      prefetch_row(out_, position, size_);
      prefetch_row(dout_, position, size_);
      prefetch_row(dq_, position, size_);
    }
  }

  // The first query head of a group overwrites dk and dv unless asked to add; the last one has
  // their sums.
  typename KeyTiles<Size>::Source source(const AttentionBackward& args, std::int64_t head) const {
    const std::int64_t ratio = args.q.shape[1] / args.k.shape[1];
    const std::int64_t kv_head = head / ratio;
    const bool first = head % ratio == 0;
    const bool last = head % ratio == ratio - 1;
    return {head_rows<const float>(args.k, sequence_.begin, kv_head),
            head_rows<const float>(args.v, sequence_.begin, kv_head),
            head_rows(args.dk, sequence_.begin, kv_head),
            head_rows(args.dv, sequence_.begin, kv_head),
            args.accumulate || !first,
            last ? rope_ : RopeRows()};
  }

  void start(BackwardTile& tile, std::int64_t index) {
    tile.load(sequence_, index);
    const BackwardBuffers::QueryTile& buffers = tile.buffers;
    const float* q[kTile];
    const float* dout[kTile];
    for (std::int64_t r = 0; r < kTile; ++r) {
      const bool real = r < tile.rows;
      const std::int32_t position = tile.position[r];
      q[r] = real ? q_.row(position) : buffers_.zeros;
      dout[r] = real ? dout_.row(position) : buffers_.zeros;
      tile.lse[r] = real ? lse_[position] * kLog2E : 0.0F;
      tile.delta[r] = real ? dot_rows(size_, dout[r], out_.row(position)) : 0.0F;
      copy_row(size_, q[r], scale_, buffers.q_rows + r * size_);
      copy_row(size_, dout[r], 1.0F, buffers.dout_rows + r * size_);
    }
    rows_to_panels<kVectors>(size_, q, scale_ * kLog2E, buffers.q_panels);
    rows_to_panels<kVectors>(size_, dout, 1.0F, buffers.dout_panels);
    std::fill_n(buffers.dq_panels, kTile * size_, 0.0F);
  }

  HWY_NOINLINE void visit(BackwardTile& tile, std::int64_t v) {
    const KeyRows keys(sequence_, tile.tile, v);
    // Blocks of rows of the key tile that each panel has weights for.
    std::int64_t first_block[kPanels];
    std::int64_t last_block[kPanels];
    const F32Vector one = hn::Set(F32(), 1.0F);
    const F32Vector no_correction[2] = {one, one};
    for (std::int64_t panel = 0; panel < kPanels; ++panel) {
      const VisibleRows visible = visible_rows<kVectors>(sequence_, tile, panel, keys);
      first_block[panel] = visible.begin / kBlockRows;
      last_block[panel] = visible.begin < visible.end ? (visible.end + kBlockRows - 1) / kBlockRows
                                                      : first_block[panel];
      if (visible.begin >= visible.end) continue;
      score_gradients(tile, panel, keys, visible, v);
      multiply_values<kVectors>(size_, keys_.k(v) + visible.begin * size_,
                                buffers_.dscores + (panel * kTile + visible.begin) * kWidth,
                                visible.end - visible.begin, no_correction,
                                tile.buffers.dq_panels + panel * kWidth * size_);
    }
    for (std::int64_t block = 0; block * kBlockRows < kTile; ++block) {
      PanelRange panels{0, 0};
      while (panels.begin < kPanels &&
             !(first_block[panels.begin] <= block && block < last_block[panels.begin])) {
        ++panels.begin;
      }
      panels.end = panels.begin;
      while (panels.end < kPanels && first_block[panels.end] <= block &&
             block < last_block[panels.end]) {
        ++panels.end;
      }
      if (panels.begin == panels.end) continue;
      add_key_gradients<kVectors>(size_, block * kBlockRows, panels,
                                  {buffers_.weights, buffers_.dscores, tile.buffers.dout_rows,
                                   tile.buffers.q_rows, keys_.dv(v), keys_.dk(v)});
    }
  }

  // Fills the panel's weights and dscores (to be scaled) for its blocks of rows.
  HWY_INLINE void score_gradients(BackwardTile& tile, std::int64_t panel, const KeyRows& keys,
                                  const VisibleRows& visible, std::int64_t v) {
    float* weights = buffers_.weights + panel * kTile * kWidth;
    float* dscores = buffers_.dscores + panel * kTile * kWidth;
    multiply_keys<kVectors>(size_, keys_.k(v), tile.buffers.q_panels + panel * kWidth * size_,
                            visible.begin, visible.end, weights);
    multiply_keys<kVectors>(size_, keys_.v(v), tile.buffers.dout_panels + panel * kWidth * size_,
                            visible.begin, visible.end, dscores);
    mask_visible_rows<kVectors>(sequence_, tile, panel, keys, visible, weights);
    score_gradient_rows<kVectors>(visible.begin, visible.end, tile.lse + panel * kWidth,
                                  tile.delta + panel * kWidth, weights, dscores);
  }

  void finish(BackwardTile& tile) {
    float* rows[kTile];
    alignas(64) float factor[kTile];
    for (std::int64_t r = 0; r < kTile; ++r) {
      rows[r] = r < tile.rows ? dq_.row(tile.position[r]) : buffers_.sink;
      factor[r] = r < tile.rows ? scale_ : 0.0F;
    }
    if (accumulate_) {
      std::fill_n(buffers_.sink, static_cast<std::int64_t>(size_), 0.0F);
      panels_to_rows<kVectors, true>(size_, tile.buffers.dq_panels, factor, rows);
    } else {
      panels_to_rows<kVectors, false>(size_, tile.buffers.dq_panels, factor, rows);
    }
    if (!rope_) return;
    for (std::int64_t r = 0; r < tile.rows; ++r) rope_.turn_back(rows[r], tile.position[r], size_);
  }

  Size size_;
  float scale_;
  bool accumulate_;
  const AttentionSequence& sequence_;
  BackwardBuffers buffers_;
  HeadRows<const float> q_;
  HeadRows<const float> out_;
  HeadRows<const float> dout_;
  HeadRows<float> dq_;
  const float* lse_;
  RopeRows rope_;
  KeyTiles<Size> keys_;
  BackwardTile tiles_[kMaxQueryGroup];
};

// A task's head is a key head; its query heads follow one another, so that the sums have a fixed
// order.
template <int kSize, int kVectors>
void run_backward(const AttentionBackward& args, const AttentionTask& task, std::int64_t ring_tiles,
                  float* scratch) {
  const HeadSize<kSize> size{args.q.shape[2]};
  ScratchCutter cutter(scratch);
  const BackwardBuffers buffers(cutter, size, ring_tiles);
  const AttentionSequence sequence(*args.plan, task.sequence);
  const bool complete = !chooses_blocks(args.plan->pattern(), args.plan->length(task.sequence));
  const RopeRows rope = complete ? rope_rows(args, sequence.begin) : RopeRows();
  const std::int64_t ratio = args.q.shape[1] / args.k.shape[1];
  for (std::int64_t i = 0; i < ratio; ++i) {
    BackwardTask<HeadSize<kSize>, kVectors>(size, args, sequence, rope, task.head * ratio + i,
                                            ring_tiles, buffers)
        .run();
  }
}

template <int kVectors>
void run_backward_sized(const AttentionBackward& args, const AttentionTask& task,
                        std::int64_t ring_tiles, float* scratch) {
#if !FLYWHEEL_ANY_SIZE_ONLY
  const std::int64_t size = args.q.shape[2];
  if (size == 64) return run_backward<64, kVectors>(args, task, ring_tiles, scratch);
  if (size == 128) return run_backward<128, kVectors>(args, task, ring_tiles, scratch);
#endif
  run_backward<0, kVectors>(args, task, ring_tiles, scratch);
}

void attention_backward_task(const AttentionBackward& args, const AttentionTask& task,
                             std::int64_t ring_tiles, float* scratch) {
  const TileWalk walk(args.plan->pattern(), args.plan->length(task.sequence), kTile);
  const bool narrow = walk.kind() == AttentionKind::Sa || walk.kind() == AttentionKind::Moba;
  const auto run = narrow ? run_backward_sized<kNarrowVectors> : run_backward_sized<2>;
  run(args, task, ring_tiles, scratch);
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {
namespace {

HWY_EXPORT(attention_backward_task);

}  // namespace

void attention_backward(const AttentionBackward& args, ThreadPool& pool,
                        AttentionWorkspace& workspace) {
  const std::array<const TensorView*, 4> key_rows{&args.k, &args.v, &args.dk, &args.dv};
  const std::int64_t ring_tiles = ring_capacity(*args.plan, key_rows);
  ScratchCutter counter(nullptr);
  BackwardBuffers(counter, args.q.shape[2], ring_tiles);
  workspace.reserve(pool.size(), std::max(counter.used(), chosen_gradients_floats(args)));
  list_tasks(*args.plan, args.k.shape[1], 1, workspace.tasks());
  pool.for_each(std::ssize(workspace.tasks()), [&](std::int64_t task, int thread) {
    const AttentionTask& chosen = workspace.tasks()[static_cast<std::size_t>(task)];
    HWY_DYNAMIC_DISPATCH(attention_backward_task)
    (args, chosen, ring_tiles, workspace.scratch(thread));
    add_chosen_gradients(args, chosen, workspace.scratch(thread));
  });
}

}  // namespace flywheel::cpu
#endif
