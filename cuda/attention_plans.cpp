#include "cuda/attention_plans.h"

#include <algorithm>
#include <array>
#include <limits>

#include "attention/tile_walk.h"
#include "core/error.h"

namespace flywheel::cuda {
namespace {

std::int32_t narrow(std::int64_t x) {
  return static_cast<std::int32_t>(x);
}

AttentionTile describe(const AttentionPlan& plan, std::int64_t sequence, std::int64_t even_begin,
                       const TileWalk& walk, std::int64_t tile) {
  const bool bounded = walk.kind() != AttentionKind::Full;
  const TileWalk::Interval keys = walk.keys(tile);
  return {.begin = plan.cu_seqlens()[static_cast<std::size_t>(sequence)],
          .even_begin = narrow(even_begin),
          .length = narrow(plan.length(sequence)),
          .tile = narrow(tile),
          .ranked = walk.kind() == AttentionKind::Sa ? 1 : 0,
          .first_keys = narrow(keys.first),
          .last_keys = narrow(keys.last),
          .first_queries = std::numeric_limits<std::int32_t>::max(),
          .last_queries = std::numeric_limits<std::int32_t>::min(),
          .offset = bounded ? walk.offset() : 0,
          .slots = bounded ? walk.slots() : std::numeric_limits<std::int32_t>::max(),
          .wrap = walk.wrap()};
}

// A query tile that visits virtual key tile v is, seen from that key tile, as far away on the other
// side.
void find_queries(const TileWalk& walk, AttentionTile* tiles) {
  for (std::int64_t query = 0; query < walk.tiles(); ++query) {
    const TileWalk::Interval keys = walk.keys(query);
    for (std::int64_t v = keys.first; v <= keys.last; ++v) {
      const std::int64_t key = walk.key_tile(v);
      const std::int32_t seen = narrow(query - (v - key));
      AttentionTile& tile = tiles[walk.tiles() - 1 - key];
      tile.first_queries = std::min(tile.first_queries, seen);
      tile.last_queries = std::max(tile.last_queries, seen);
    }
  }
}

}  // namespace

std::int64_t list_tiles(const AttentionPlan& plan, std::vector<AttentionTile>& tiles) {
  tiles.clear();
  std::int64_t even_begin = 0;
  for (std::int64_t s = 0; s < plan.sequences(); ++s) {
    const TileWalk walk(plan.pattern(), plan.length(s), kAttentionTile);
    const std::size_t first = tiles.size();
    for (std::int64_t tile = walk.tiles() - 1; tile >= 0; --tile) {
      tiles.push_back(describe(plan, s, even_begin, walk, tile));
    }
    find_queries(walk, tiles.data() + first);
    even_begin += (plan.length(s) + 1) / 2 * 2;
  }
  return even_begin;
}

BlockCounts count_blocks(const AttentionPlan& plan) {
  std::vector<AttentionTile> tiles;
  DevicePlan lists{};
  lists.even_tokens = list_tiles(plan, tiles);
  lists.tiles = tiles.data();
  lists.tile_count = std::ssize(tiles);
  lists.slot_position = plan.slot_position().data();
  lists.slot_rank = plan.slot_rank().data();
  return count_blocks(lists);
}

// The tiles, then the positions and the ranks of the slots.
struct AttentionPlans::Copy {
  std::unique_ptr<Memory> memory;
  std::int64_t tile_count = 0;
  std::int64_t slots = 0;
  std::int64_t even_tokens = 0;
};

AttentionPlans::AttentionPlans() = default;
AttentionPlans::~AttentionPlans() = default;

void AttentionPlans::upload(const AttentionPlan& plan, Uploads& uploads, const Stream& stream) {
  require(plan.tile() == kAttentionTile, ErrorKind::Internal,
          "a plan has tiles of {} ranks; the CUDA backend walks {}", plan.tile(), kAttentionTile);
  std::unique_ptr<Copy>& copy = copies_[&plan];
  if (!copy) copy = std::make_unique<Copy>();
  copy->even_tokens = list_tiles(plan, tiles_);
  copy->tile_count = std::ssize(tiles_);
  copy->slots = std::ssize(plan.slot_position());
  const std::array parts{std::as_bytes(std::span(tiles_)), std::as_bytes(plan.slot_position()),
                         std::as_bytes(plan.slot_rank())};
  std::int64_t bytes = 0;
  for (const auto& part : parts) bytes += std::ssize(part);
  if (!copy->memory || copy->memory->bytes() < bytes) {
    stream.synchronize();
    copy->memory = std::make_unique<Memory>(bytes + bytes / 2, "an attention plan");
  }
  std::byte* to = copy->memory->data();
  for (const auto& part : parts) {
    uploads.queue(to, part.data(), std::ssize(part), stream);
    to += part.size();
  }
}

DevicePlan AttentionPlans::at(const AttentionPlan& plan) const {
  const auto found = copies_.find(&plan);
  require(found != copies_.end(), ErrorKind::Internal, "an attention plan was not uploaded");
  const Copy& copy = *found->second;
  const std::byte* lists =
      copy.memory->data() + copy.tile_count * static_cast<std::int64_t>(sizeof(AttentionTile));
  DevicePlan device{};
  device.tiles = reinterpret_cast<const AttentionTile*>(copy.memory->data());
  device.tile_count = copy.tile_count;
  device.even_tokens = copy.even_tokens;
  if (copy.slots > 0) {
    device.slot_position = reinterpret_cast<const std::int32_t*>(lists);
    device.slot_rank = device.slot_position + copy.slots;
  }
  return device;
}

}  // namespace flywheel::cuda
