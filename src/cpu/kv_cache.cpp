#include <algorithm>

#include "cpu/kernels.h"
#include "cpu/rows.h"

namespace flywheel::cpu {
namespace {

void write_token(const TensorView& cache, const TensorView& heads, std::int64_t token,
                 std::int64_t slot, std::int64_t position) {
  const std::int64_t size = heads.shape[2];
  for (std::int64_t head = 0; head < heads.shape[1]; ++head) {
    const float* from = heads.f32() + token * heads.stride(0) + head * heads.stride(1);
    std::copy_n(from, size,
                cache.f32() + slot * cache.stride(0) + head * cache.stride(1) + position * size);
  }
}

}  // namespace

void kv_cache_write(const KvCacheWrite& args, ThreadPool& pool) {
  check_indices("kv_cache_write: slots", args.slots, args.k_cache.shape[0]);
  check_indices("kv_cache_write: positions", args.positions, args.k_cache.shape[2]);
  const std::int64_t width = args.k.shape[1] * args.k.shape[2];
  pool.for_range(args.k.shape[0], row_grain(width), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t slot = args.slots.i32()[token];
      const std::int64_t position = args.positions.i32()[token];
      write_token(args.k_cache, args.k, token, slot, position);
      write_token(args.v_cache, args.v, token, slot, position);
    }
  });
}

}  // namespace flywheel::cpu
