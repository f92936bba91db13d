#include "cpu/attention_tasks.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "attention/counts.h"

namespace flywheel::cpu {
namespace {

constexpr std::align_val_t kCacheLine{64};

// Long enough for keys and values to outgrow the second-level cache.
constexpr std::int64_t kLongTiles = 32;

}  // namespace

AttentionWorkspace::AttentionWorkspace() = default;
AttentionWorkspace::~AttentionWorkspace() = default;

void AttentionWorkspace::AlignedDelete::operator()(float* memory) const {
  ::operator delete[](memory, kCacheLine);
}

void AttentionWorkspace::reserve(int threads, std::int64_t floats) {
  if (floats > floats_) {
    scratch_.clear();
    floats_ = floats;
  }
  while (std::ssize(scratch_) < threads) {
    scratch_.emplace_back(static_cast<float*>(
        ::operator new[](static_cast<std::size_t>(floats_) * sizeof(float), kCacheLine)));
  }
}

AttentionSequence::AttentionSequence(const AttentionPlan& plan, std::int64_t sequence)
    : walk(plan.pattern(), plan.length(sequence), plan.tile()),
      begin(plan.cu_seqlens()[static_cast<std::size_t>(sequence)]),
      positions(nullptr),
      ranks(nullptr) {
  if (walk.kind() != AttentionKind::Sa) return;
  positions = plan.slot_position().data() + begin;
  ranks = plan.slot_rank().data() + begin;
}

std::int64_t query_group(const TileWalk& walk) {
  return walk.kind() == AttentionKind::Full && walk.tiles() >= kLongTiles ? kMaxQueryGroup : 1;
}

void list_tasks(const AttentionPlan& plan, std::int64_t heads, int threads,
                std::vector<AttentionTask>& tasks) {
  tasks.clear();
  double total = 0;
  for (std::int64_t s = 0; s < plan.sequences(); ++s) {
    const std::int64_t n = plan.length(s);
    const double cost = mean_visible_keys(plan.pattern(), n) * static_cast<double>(n);
    const auto tiles = static_cast<std::int32_t>((n + plan.tile() - 1) / plan.tile());
    for (std::int64_t h = 0; h < heads; ++h) {
      tasks.push_back(
          {static_cast<std::int32_t>(s), static_cast<std::int32_t>(h), 0, tiles - 1, cost});
    }
    total += cost * static_cast<double>(heads);
  }
  if (threads > 1) {
    const double share = total / (4 * threads);
    const std::size_t whole = tasks.size();
    for (std::size_t i = 0; i < whole; ++i) {
      const AttentionTask task = tasks[i];
      const std::int32_t tiles = task.last_tile + 1;
      const auto parts =
          std::min<std::int32_t>(tiles, static_cast<std::int32_t>(std::ceil(task.cost / share)));
      tasks[i].last_tile = tiles / parts - 1;
      tasks[i].cost /= parts;
      for (std::int32_t part = 1; part < parts; ++part) {
        tasks.push_back({task.sequence, task.head, tiles * part / parts,
                         tiles * (part + 1) / parts - 1, task.cost / parts});
      }
    }
  }
  // Later tiles of full attention cost more.
  std::sort(tasks.begin(), tasks.end(), [](const AttentionTask& a, const AttentionTask& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.last_tile > b.last_tile;
  });
}

std::int64_t ring_capacity(const AttentionPlan& plan, std::span<const TensorView* const> key_rows) {
  const bool in_place = std::all_of(key_rows.begin(), key_rows.end(), [](const TensorView* rows) {
    return rows->stride(0) == rows->shape[2];
  });
  std::int64_t capacity = 1;
  for (std::int64_t s = 0; s < plan.sequences(); ++s) {
    const TileWalk walk(plan.pattern(), plan.length(s), plan.tile());
    if (in_place && walk.kind() != AttentionKind::Sa) continue;
    capacity = std::max(capacity, walk.widest(query_group(walk)));
  }
  return capacity;
}

}  // namespace flywheel::cpu
