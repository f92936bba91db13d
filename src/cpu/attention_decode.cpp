#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "cpu/kernels.h"
#include "cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/attention_decode.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/simd_loops-inl.h"
#include "cpu/simd_math-inl.h"
#include "hwy/cache_control.h"

// Keys fall into blocks, each with a softmax of its own for all query heads that share the keys; a
// second step weighs the blocks' results ("Flash-Decoding", Dao et al. 2023). Blocks depend on the
// sequence alone, so the bits depend neither on the threads nor on the rest of the batch.

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

constexpr std::int64_t kBlockKeys = 256;
constexpr std::int64_t kAheadFloats = 1024;  // of prefetching
constexpr std::int64_t kMostBlocks = 256;    // of a sequence; longer ones have larger blocks

// What one block of keys gives for one query head: highest score, sum of weights, weighted values.
struct Partial {
  float* data;  // [2 + D]
  HWY_INLINE float& max() const { return data[0]; }
  HWY_INLINE float& sum() const { return data[1]; }
  HWY_INLINE float* values() const { return data + 2; }
};

struct Decode {
  const AttentionDecode& args;
  float* partials;  // [rows of a group, H, most_blocks, 2 + D]
  std::int64_t most_blocks;
  std::int64_t size = args.q.shape[2];
  std::int64_t heads = args.q.shape[1];
  std::int64_t kv_heads = args.k_cache.shape[1];

  struct Keys {
    std::int64_t begin, end, block;  // positions; keys of a block
    std::int64_t blocks() const { return (end - begin + block - 1) / block; }
  };
  Keys keys(std::int64_t row) const {
    const std::int64_t end = std::int64_t{args.positions.i32()[row]} + 1;
    const std::int64_t begin = args.window == 0 ? 0 : std::max<std::int64_t>(0, end - args.window);
    const std::int64_t least = (end - begin + kMostBlocks - 1) / kMostBlocks;
    return {begin, end, (least + kBlockKeys - 1) / kBlockKeys * kBlockKeys};
  }
  const float* cached(const TensorView& cache, std::int64_t row, std::int64_t kv_head,
                      std::int64_t position) const {
    return cache.f32() + args.slots.i32()[row] * cache.stride(0) + kv_head * cache.stride(1) +
           position * size;
  }
  Partial partial(std::int64_t row_of_group, std::int64_t head, std::int64_t block) const {
    return {partials + ((row_of_group * heads + head) * most_blocks + block) * (2 + size)};
  }
};

// scores[j] = factor * <q, keys[j]>, keys [count, size].
HWY_INLINE void score_keys(const float* q, const float* keys, std::int64_t count, std::int64_t size,
                           float factor, float* scores) {
  constexpr std::int64_t kTogether = 4;
  const F32 d;
  std::int64_t j = 0;
  for (; j + kTogether <= count; j += kTogether) {
    F32Vector sums[kTogether];
    for (auto& sum : sums) sum = hn::Zero(d);
    const float* key = keys + j * size;
    for_vectors(size, [&](std::int64_t i, auto lanes) HWY_ATTR {
      const auto x = lanes.load(q + i);
      HWY_UNROLL(4)
      for (int c = 0; c < kTogether; ++c) {
        hwy::Prefetch(key + c * size + i + kAheadFloats);
        sums[c] = hn::MulAdd(x, lanes.load(key + c * size + i), sums[c]);
      }
    });
    for (int c = 0; c < kTogether; ++c)
      scores[j + c] = factor * hn::GetLane(hn::SumOfLanes(d, sums[c]));
  }
  for (; j < count; ++j) {
    auto sum = hn::Zero(d);
    for_vectors(size, [&](std::int64_t i, auto lanes) HWY_ATTR {
      sum = hn::MulAdd(lanes.load(q + i), lanes.load(keys + j * size + i), sum);
    });
    scores[j] = factor * hn::GetLane(hn::SumOfLanes(d, sum));
  }
}

// Turns scores (in base 2) into weights; notes their maximum and sum.
HWY_INLINE void weigh_scores(float* scores, std::int64_t count, const Partial& partial) {
  const F32 d;
  auto highest = hn::Set(d, -std::numeric_limits<float>::infinity());
  std::int64_t j = 0;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (; j + step <= count; j += step) highest = hn::Max(highest, hn::LoadU(d, scores + j));
  float max = hn::GetLane(hn::MaxOfLanes(d, highest));
  for (; j < count; ++j) max = std::max(max, scores[j]);
  partial.max() = max;
  const auto shift = hn::Set(d, max);
  for_vectors(count, [&](std::int64_t i, auto lanes) HWY_ATTR {
    lanes.store(exp2(d, hn::Sub(lanes.load(scores + i), shift)), scores + i);
  });
  partial.sum() = sum_vectors(count, [&](std::int64_t i, auto lanes, F32Vector sum)
                                         HWY_ATTR { return hn::Add(sum, lanes.load(scores + i)); });
}

// out = sum of weights[j] * values[j], values [count, size], for four vectors of columns at a time.
HWY_INLINE void mix_values(const float* weights, const float* values, std::int64_t count,
                           std::int64_t size, float* out) {
  const F32 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + 4 * lanes <= size; i += 4 * lanes) {
    auto s0 = hn::Zero(d);
    auto s1 = s0;
    auto s2 = s0;
    auto s3 = s0;
    const float* value = values + i;
    for (std::int64_t j = 0; j < count; ++j, value += size) {
      const auto w = hn::Set(d, weights[j]);
      hwy::Prefetch(value + kAheadFloats);
      hwy::Prefetch(value + kAheadFloats + 2 * lanes);
      s0 = hn::MulAdd(w, hn::LoadU(d, value), s0);
      s1 = hn::MulAdd(w, hn::LoadU(d, value + lanes), s1);
      s2 = hn::MulAdd(w, hn::LoadU(d, value + 2 * lanes), s2);
      s3 = hn::MulAdd(w, hn::LoadU(d, value + 3 * lanes), s3);
    }
    hn::StoreU(s0, d, out + i);
    hn::StoreU(s1, d, out + i + lanes);
    hn::StoreU(s2, d, out + i + 2 * lanes);
    hn::StoreU(s3, d, out + i + 3 * lanes);
  }
  for_vectors(size - i, [&](std::int64_t at, auto part) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (std::int64_t j = 0; j < count; ++j) {
      sum = hn::MulAdd(hn::Set(d, weights[j]), part.load(values + j * size + i + at), sum);
    }
    part.store(sum, out + i + at);
  });
}

// One block of the keys of a row and key head, for the query heads that read them.
void attend_block(const Decode& decode, std::int64_t row, std::int64_t row_of_group,
                  std::int64_t kv_head, std::int64_t block, float* scores) {
  const Decode::Keys keys = decode.keys(row);
  const std::int64_t begin = keys.begin + block * keys.block;
  const std::int64_t count = std::min(keys.block, keys.end - begin);
  const AttentionDecode& args = decode.args;
  const std::int64_t group = decode.heads / decode.kv_heads;
  const float* k = decode.cached(args.k_cache, row, kv_head, begin);
  const float* v = decode.cached(args.v_cache, row, kv_head, begin);
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const float* q = args.q.f32() + row * args.q.stride(0) + head * args.q.stride(1);
    const Partial partial = decode.partial(row_of_group, head, block);
    score_keys(q, k, count, decode.size, args.scale * kLog2E, scores);
    weigh_scores(scores, count, partial);
    mix_values(scores, v, count, decode.size, partial.values());
  }
}

// The blocks of one row and query head, in their order.
void combine_blocks(const Decode& decode, std::int64_t row, std::int64_t row_of_group,
                    std::int64_t head) {
  const F32 d;
  const std::int64_t blocks = decode.keys(row).blocks();
  float max = decode.partial(row_of_group, head, 0).max();
  for (std::int64_t b = 1; b < blocks; ++b) {
    max = std::max(max, decode.partial(row_of_group, head, b).max());
  }
  float sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const Partial partial = decode.partial(row_of_group, head, b);
    partial.max() = std::exp2(partial.max() - max);
    sum += partial.max() * partial.sum();
  }
  const TensorView& out = decode.args.out;
  float* to = out.f32() + row * out.stride(0) + head * out.stride(1);
  for_vectors(decode.size, [&](std::int64_t i, auto lanes) HWY_ATTR {
    auto mixed = hn::Zero(d);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const Partial partial = decode.partial(row_of_group, head, b);
      mixed = hn::MulAdd(hn::Set(d, partial.max()), lanes.load(partial.values() + i), mixed);
    }
    lanes.store(hn::Div(mixed, hn::Set(d, sum)), to + i);
  });
}

void decode_rows(const AttentionDecode& args, ThreadPool& pool, const Workspace& workspace) {
  Decode decode{.args = args, .partials = workspace.shared(), .most_blocks = 1};
  const std::int64_t rows = args.q.shape[0];
  std::int64_t longest_block = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const Decode::Keys keys = decode.keys(row);
    decode.most_blocks = std::max(decode.most_blocks, keys.blocks());
    longest_block = std::max(longest_block, keys.block);
  }
  const std::int64_t floats = decode.heads * decode.most_blocks * (2 + decode.size);  // of a row
  require(floats <= Workspace::kSharedFloats && longest_block <= Workspace::kThreadFloats,
          ErrorKind::Internal, "attention_decode: {} heads of {} over {} keys need more workspace",
          decode.heads, decode.size, args.k_cache.shape[2]);
  const std::int64_t rows_of_group = std::min(rows, Workspace::kSharedFloats / floats);
  for (std::int64_t first = 0; first < rows; first += rows_of_group) {
    const std::int64_t count = std::min(rows_of_group, rows - first);
    const std::int64_t tasks = decode.kv_heads * decode.most_blocks;  // of a row
    pool.for_each(count * tasks, [&](std::int64_t task, int thread) {
      const std::int64_t r = task / tasks;
      const std::int64_t block = task % decode.most_blocks;
      if (block >= decode.keys(first + r).blocks()) return;
      attend_block(decode, first + r, r, task % tasks / decode.most_blocks, block,
                   workspace.of_thread(thread));
    });
    constexpr std::int64_t kHeadsTogether = 16;
    pool.for_range(count * decode.heads, kHeadsTogether,
                   [&](std::int64_t begin, std::int64_t end, int) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       const std::int64_t r = i / decode.heads;
                       combine_blocks(decode, first + r, r, i % decode.heads);
                     }
                   });
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(decode_rows);

void attention_decode(const AttentionDecode& args, ThreadPool& pool, const Workspace& workspace) {
  check_indices("attention_decode: slots", args.slots, args.k_cache.shape[0]);
  check_indices("attention_decode: positions", args.positions, args.k_cache.shape[2]);
  HWY_DYNAMIC_DISPATCH(decode_rows)(args, pool, workspace);
}

}  // namespace flywheel::cpu
#endif
