#pragma once

// Attention in float arithmetic: two sets of rows meet in shared memory. A warp owns kMine rows;
// its lanes are the other rows in the scores, and the channels in the sums.
#include "cuda/kernels/attention_args.h"
#include "cuda/kernels/attention_walk.h"
#include "cuda/kernels/rope_rotation.h"

namespace flywheel::cuda {

constexpr int kRows = kWarp;  // of a block, and of a part of the tiles that it meets
// A thread holds kMine rows' sums of kSize / 32 channels.
template <int kSize>
constexpr int kMine = kSize > 128 ? 4 : 8;
template <int kSize>
constexpr int kWarps = kRows / kMine<kSize>;
template <int kSize>
constexpr int kThreads = kWarps<kSize>* kWarp;
static_assert(kAttentionTile % kRows == 0);
constexpr int kParts = kAttentionTile / kRows;

// The padding keeps the rows of a quarter warp in different banks.
template <int kSize>
struct Rows {
  alignas(16) float at[kRows][kSize + 4];
};

// Where rows lie, and the statistics of queries.
struct Places {
  std::int32_t position[kRows];
  std::int32_t rank[kRows];
  float lse[kRows];
  float delta[kRows];
};

__device__ __forceinline__ Part part_of(const AttentionTile& own, MetTile tile, std::int32_t part) {
  return part_of(own, tile, part * kRows, kRows);
}

__device__ __forceinline__ void place_rows(Places& places, const AttentionArgs& args,
                                           const AttentionTile& own, const Part& part,
                                           std::int32_t padding) {
  if (warp_id() != 0) return;
  const std::int32_t row = lane_id();
  const bool real = row < part.count;
  places.position[row] = real ? position_of(args.plan, own, part, row) : padding;
  places.rank[row] = real ? rank_of(args.plan, own, part, row) : 0;
}

// factor * the rows of `from` at token_of(row), row < count; zeros for padding.
template <class T, int kSize, class F>
__device__ __forceinline__ void load_rows(Rows<kSize>& rows, const HeadRows& from,
                                          std::int64_t head, std::int32_t size, std::int32_t count,
                                          float factor, const F& token_of) {
  for (std::int32_t row = warp_id(); row < kRows; row += kWarps<kSize>) {
    const bool real = row < count;
    const T* source = row_of<const T>(from, token_of(real ? row : 0), head);
    for (std::int32_t c = lane_id(); c < kSize; c += kWarp) {
      rows.at[row][c] = real && c < size ? to_float(source[c]) * factor : 0.0F;
    }
  }
}

// The same for the rows of a part.
template <class T, int kSize>
__device__ __forceinline__ void load_rows(Rows<kSize>& rows, const HeadRows& from,
                                          std::int64_t head, const AttentionArgs& args,
                                          const AttentionTile& own, const Part& part,
                                          float factor) {
  load_rows<T>(rows, from, head, args.size, part.count, factor, [&](std::int32_t row) {
    return std::int64_t{own.begin} + position_of(args.plan, own, part, row);
  });
}

// sums[r] = my row r times the lane's row of those met.
template <int kSize>
__device__ __forceinline__ void multiply_rows(float (&sums)[kMine<kSize>], const Rows<kSize>& mine,
                                              const Rows<kSize>& met, std::int32_t size) {
#pragma unroll
  for (int r = 0; r < kMine<kSize>; ++r) sums[r] = 0;
  for (std::int32_t c = 0; c < size; c += 4) {
    const Floats<4> x = load<4>(&met.at[lane_id()][c]);
#pragma unroll
    for (int r = 0; r < kMine<kSize>; ++r) {
      const Floats<4> y = load<4>(&mine.at[warp_id() * kMine<kSize> + r][c]);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[r] += y[i] * x[i];
    }
  }
}

// Sums over rows, for kCount rows of mine: channel lane + 32 j.
template <int kSize, int kCount = kMine<kSize>>
struct Sums {
  static constexpr int kEach = kSize / kWarp;
  float at[kCount][kEach];

  __device__ __forceinline__ Sums() {
#pragma unroll
    for (int r = 0; r < kCount; ++r) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) at[r][j] = 0;
    }
  }

  __device__ __forceinline__ void scale(int r, float factor) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) at[r][j] *= factor;
  }

  // += weights[r][row] * rows[row]; the weights are the warp's.
  __device__ __forceinline__ void add(const float (&weights)[kCount][kRows],
                                      const Rows<kSize>& rows) {
    for (int row = 0; row < kRows; row += 4) {
      Floats<4> w[kCount];
#pragma unroll
      for (int r = 0; r < kCount; ++r) w[r] = load<4>(&weights[r][row]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          const float x = rows.at[row + i][lane_id() + j * kWarp];
#pragma unroll
          for (int r = 0; r < kCount; ++r) at[r][j] += w[r][i] * x;
        }
      }
    }
  }

  // Row r of `to` becomes, or grows by, factor times the sums.
  template <class T>
  __device__ __forceinline__ void store(T* to, int r, float factor, bool accumulate,
                                        std::int32_t size) const {
    for_channels(size, [&](std::int32_t c, int j) {
      to[c] = from_float<T>(grown(to, c, at[r][j] * factor, accumulate));
    });
  }

  // The same, turned back by RoPE. `row` is memory that the warp shares.
  template <class T>
  __device__ __forceinline__ void store_turned(T* to, int r, float factor, bool accumulate,
                                               std::int32_t size, const Rope& rope,
                                               std::int64_t token, float (&row)[kSize + 4]) const {
    for_channels(
        size, [&](std::int32_t c, int j) { row[c] = grown(to, c, at[r][j] * factor, accumulate); });
    __syncwarp();
    for_channels(size, [&](std::int32_t c, int /*j*/) {
      to[c] = from_float<T>(
          rotated(rope, token, size, c, -1.0F, [&](std::int64_t channel) { return row[channel]; }));
    });
  }

 private:
  template <class T>
  static __device__ __forceinline__ float grown(const T* to, std::int32_t c, float x,
                                                bool accumulate) {
    return (accumulate ? to_float(to[c]) : 0.0F) + x;
  }

  // Calls body(channel, j) for the lane's channels.
  template <class F>
  static __device__ __forceinline__ void for_channels(std::int32_t size, const F& body) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const std::int32_t c = lane_id() + j * kWarp;
      if (c < size) body(c, j);
    }
  }
};

// The gradients of my rows, of queries or keys, which `mine` held, to `to`: turned back if RoPE is
// to be.
template <class T, int kSize>
__device__ __forceinline__ void store_gradients(const Sums<kSize>& sums, const HeadRows& to,
                                                std::int64_t head, float factor,
                                                const AttentionArgs& args, const AttentionTile& own,
                                                const Places& places, Rows<kSize>& mine,
                                                std::int32_t count) {
#pragma unroll
  for (int r = 0; r < kMine<kSize>; ++r) {
    const int row = warp_id() * kMine<kSize> + r;
    if (row >= count) continue;
    const std::int64_t token = own.begin + places.position[row];
    T* target = row_of<T>(to, token, head);
    if (args.rope.cos) {
      sums.store_turned(target, r, factor, args.accumulate, args.size, args.rope, token,
                        mine.at[row]);
    } else {
      sums.store(target, r, factor, args.accumulate, args.size);
    }
  }
}

}  // namespace flywheel::cuda
