#include <cmath>

#include "attention/plan.h"
#include "cpu/attention.h"
#include "cpu/attention_moba.h"
#include "cpu/attention_scratch.h"
#include "cpu/attention_tasks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_forward.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before highway.h.
#include "cpu/attention_products-inl.h"
#include "cpu/attention_softmax-inl.h"
#include "cpu/attention_tiles-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The running softmax of a query tile, in base 2 (Milakov & Gimelshein 2018).
struct ForwardTile : QueryRows {
  ForwardBuffers::QueryTile buffers;  // the queries times scale * log2(e)
  alignas(64) float max[kTile];
  alignas(64) float sum[kTile];
};

template <class Size, int kVectors>
class ForwardTask {
  static constexpr std::int64_t kWidth = kVectors * kLanes;

 public:
  ForwardTask(Size size, const AttentionForward& args, const AttentionTask& task,
              std::int64_t ring_tiles, const ForwardBuffers& buffers)
      : size_(size),
        task_(task),
        scale_(args.scale),
        sequence_(*args.plan, task.sequence),
        buffers_(buffers),
        q_(head_rows<const float>(args.q, sequence_.begin, task.head)),
        out_(head_rows(args.out, sequence_.begin, task.head)),
        lse_(args.lse.f32() + task.head * args.q.shape[0] + sequence_.begin),
        keys_(size, sequence_, source(args),
              {ring_tiles, buffers.k_ring, buffers.v_ring, nullptr, nullptr}, task.first_tile) {
    for (std::size_t g = 0; g < buffers.tiles.size(); ++g) tiles_[g].buffers = buffers.tiles[g];
    std::fill_n(buffers.zeros, static_cast<std::int64_t>(size), 0.0F);
  }

  void run() {
    const std::int64_t group = query_group(sequence_.walk);
    for (std::int64_t first = task_.first_tile; first <= task_.last_tile; first += group) {
      const std::int64_t count = std::min(group, task_.last_tile + 1 - first);
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
    }
  }

  typename KeyTiles<Size>::Source source(const AttentionForward& args) const {
    const std::int64_t head = task_.head / (args.q.shape[1] / args.k.shape[1]);
    return {head_rows<const float>(args.k, sequence_.begin, head),
            head_rows<const float>(args.v, sequence_.begin, head)};
  }

  void start(ForwardTile& tile, std::int64_t index) {
    tile.load(sequence_, index);
    const float* rows[kTile];
    for (std::int64_t r = 0; r < kTile; ++r) {
      rows[r] = r < tile.rows ? q_.row(tile.position[r]) : buffers_.zeros;
    }
    rows_to_panels<kVectors>(size_, rows, scale_ * kLog2E, tile.buffers.q_panels);
    std::fill_n(tile.buffers.out_panels, kTile * size_, 0.0F);
    std::fill_n(tile.max, kTile, kNoMaximum);
    std::fill_n(tile.sum, kTile, 0.0F);
  }

  HWY_NOINLINE void visit(ForwardTile& tile, std::int64_t v) {
    const KeyRows keys(sequence_, tile.tile, v);
    for (std::int64_t panel = 0; panel < kTile / kWidth; ++panel) {
      const VisibleRows visible = visible_rows<kVectors>(sequence_, tile, panel, keys);
      if (visible.begin >= visible.end) continue;
      multiply_keys<kVectors>(size_, keys_.k(v), tile.buffers.q_panels + panel * kWidth * size_,
                              visible.begin, visible.end, buffers_.scores);
      mask_visible_rows<kVectors>(sequence_, tile, panel, keys, visible, buffers_.scores);
      F32Vector correction[kVectors];
      softmax_rows<kVectors>(visible.begin, visible.end, buffers_.scores, tile.max + panel * kWidth,
                             tile.sum + panel * kWidth, correction);
      multiply_values<kVectors>(size_, keys_.v(v) + visible.begin * size_,
                                buffers_.scores + visible.begin * kWidth,
                                visible.end - visible.begin, correction,
                                tile.buffers.out_panels + panel * kWidth * size_);
    }
  }

  void finish(ForwardTile& tile) {
    float* rows[kTile];
    alignas(64) float factor[kTile];
    for (std::int64_t r = 0; r < kTile; ++r) {
      const bool real = r < tile.rows;
      rows[r] = real ? out_.row(tile.position[r]) : buffers_.sink;
      factor[r] = real ? 1.0F / tile.sum[r] : 0.0F;
      if (real) lse_[tile.position[r]] = tile.max[r] * kLn2 + std::log(tile.sum[r]);
    }
    panels_to_rows<kVectors, false>(size_, tile.buffers.out_panels, factor, rows);
  }

  Size size_;
  AttentionTask task_;
  float scale_;
  AttentionSequence sequence_;
  ForwardBuffers buffers_;
  HeadRows<const float> q_;
  HeadRows<float> out_;
  float* lse_;
  KeyTiles<Size> keys_;
  ForwardTile tiles_[kMaxQueryGroup];
};

template <int kSize, int kVectors>
void run_forward(const AttentionForward& args, const AttentionTask& task, std::int64_t ring_tiles,
                 float* scratch) {
  const HeadSize<kSize> size{args.q.shape[2]};
  ScratchCutter cutter(scratch);
  const ForwardBuffers buffers(cutter, size, ring_tiles);
  ForwardTask<HeadSize<kSize>, kVectors>(size, args, task, ring_tiles, buffers).run();
}

template <int kVectors>
void run_forward_sized(const AttentionForward& args, const AttentionTask& task,
                       std::int64_t ring_tiles, float* scratch) {
#if !FLYWHEEL_ANY_SIZE_ONLY
  const std::int64_t size = args.q.shape[2];
  if (size == 64) return run_forward<64, kVectors>(args, task, ring_tiles, scratch);
  if (size == 128) return run_forward<128, kVectors>(args, task, ring_tiles, scratch);
#endif
  run_forward<0, kVectors>(args, task, ring_tiles, scratch);
}

void attention_forward_task(const AttentionForward& args, const AttentionTask& task,
                            std::int64_t ring_tiles, float* scratch) {
  const TileWalk walk(args.plan->pattern(), args.plan->length(task.sequence), kTile);
  const bool narrow = walk.kind() == AttentionKind::Sa || walk.kind() == AttentionKind::Moba;
  const auto run = narrow ? run_forward_sized<kNarrowVectors> : run_forward_sized<2>;
  run(args, task, ring_tiles, scratch);
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {
namespace {

HWY_EXPORT(attention_forward_task);

}  // namespace

void attention_forward(const AttentionForward& args, ThreadPool& pool,
                       AttentionWorkspace& workspace) {
  const std::array<const TensorView*, 2> key_rows{&args.k, &args.v};
  const std::int64_t ring_tiles = ring_capacity(*args.plan, key_rows);
  ScratchCutter counter(nullptr);
  ForwardBuffers(counter, args.q.shape[2], ring_tiles);
  workspace.reserve(pool.size(), std::max(counter.used(), chosen_blocks_floats(args)));
  list_tasks(*args.plan, args.q.shape[1], pool.size(), workspace.tasks());
  pool.for_each(std::ssize(workspace.tasks()), [&](std::int64_t task, int thread) {
    const AttentionTask& chosen = workspace.tasks()[static_cast<std::size_t>(task)];
    HWY_DYNAMIC_DISPATCH(attention_forward_task)
    (args, chosen, ring_tiles, workspace.scratch(thread));
    add_chosen_blocks(args, chosen, workspace.scratch(thread));
  });
}

}  // namespace flywheel::cpu
#endif
