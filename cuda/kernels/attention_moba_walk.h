#pragma once

// What the kernels of mixture of block attention share.
#include "cuda/kernels/attention_moba.h"
#include "cuda/kernels/attention_walk.h"

namespace flywheel::cuda {

// CUDA blocks of a tile: each takes kWarp neighbouring queries or keys of a head.
constexpr int kMobaParts = kAttentionTile / kWarp;

// What a CUDA block is about: some neighbouring queries of a head.
struct Queries {
  AttentionTile own;
  std::int64_t head, kv_head;
  std::int32_t first;  // position
  std::int32_t count;

  __device__ __forceinline__ explicit Queries(const MobaArgs& args) {
    const std::int64_t heads = args.kv_heads * args.group();
    const std::int64_t rest = blockIdx.x / heads;
    head = args.first_kv_head * args.group() + blockIdx.x % heads;
    kv_head = head / args.group();
    own = args.attention.plan.tiles[rest / kMobaParts];
    const Part part =
        part_of(own, {own.tile, 0}, static_cast<std::int32_t>(rest % kMobaParts) * kWarp, kWarp);
    first = slot_of(part, 0);
    count = part.count;
  }
};

// Of a query's first place in `scores` and `chosen`.
__device__ __forceinline__ std::int64_t places_of(const MobaArgs& args, std::int64_t head,
                                                  std::int64_t token) {
  const std::int64_t row = head - args.first_kv_head * args.group();
  return (row * args.attention.tokens + token) * args.places;
}

}  // namespace flywheel::cuda
