#pragma once

// What the two backward passes of the tensor-core kernels share.
#include "cuda/kernels/attention_mma.h"

namespace flywheel::cuda {

constexpr int kPairs = 2;  // blocks whose scores a thread holds at a time

// Of each group's rows and kPairs blocks of columns: scores, and gradients of the weights.
template <int kGroups>
struct BackwardBlocks {
  BlockSums scores[kGroups][kPairs];
  BlockSums gradients[kGroups][kPairs];

  // scores = rows of x times rows of met_x; gradients = rows of y times rows of met_y.
  template <int kRows, int kSize>
  __device__ __forceinline__ void multiply_rows(RowTile<kRows, kSize>& x, RowTile<kRows, kSize>& y,
                                                RowTile<kChunk, kSize>& met_x,
                                                RowTile<kChunk, kSize>& met_y, int row,
                                                unsigned run) {
    clear();
#pragma unroll 2
    for (int step = 0; step < kSize / 16; ++step) {
      LeftFragment left_x[kGroups];
      LeftFragment left_y[kGroups];
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        left_x[group] = load_left(x, row_of_group(group), step);
        left_y[group] = load_left(y, row_of_group(group), step);
      }
#pragma unroll
      for (int block = 0; block < kPairs; ++block) {
        if (!any(run, block)) continue;
        const RightFragment right_x = load_right(met_x, row + block * kGroup, step);
        const RightFragment right_y = load_right(met_y, row + block * kGroup, step);
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          if (!has(run, group, block)) continue;
          BlockSums& score = scores[group][block];
          BlockSums& gradient = gradients[group][block];
          multiply(score[0], score[1], left_x[group], right_x);
          multiply(gradient[0], gradient[1], left_y[group], right_y);
        }
      }
    }
  }

  // Turns scores into weights and gradients into those of the scores, less their scale.
  // statistics(row of the group, column of the chunk) are those of the query.
  template <class F>
  __device__ __forceinline__ void differentiate(int group, int block, float scale,
                                                const F& statistics) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Statistics query =
            statistics(lane_id() / 4 + e / 2 * 8, n * 8 + lane_id() % 4 * 2 + e % 2);
        float& score = scores[group][block][n][e];
        float& gradient = gradients[group][block][n][e];
        score = fast_exp2(score * scale - query.lse);
        gradient = score * (gradient - query.delta);
      }
    }
  }

 private:
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kGroups * kPairs * 8; ++i) {
      scores[i / (kPairs * 8)][i / 8 % kPairs][i / 4 % 2][i % 4] = 0;
      gradients[i / (kPairs * 8)][i / 8 % kPairs][i / 4 % 2][i % 4] = 0;
    }
  }
};

// sums[group] += blocks of weights times rows [row, row + 16 kPairs) of met.
template <int kGroups, int kSize>
__device__ __forceinline__ void add_rows(float (&sums)[kGroups][kSize / 8][4],
                                         const BlockSums (&weights)[kGroups][kPairs],
                                         RowTile<kChunk, kSize>& met, int row, unsigned run) {
#pragma unroll
  for (int block = 0; block < kPairs; ++block) {
    if (!any(run, block)) continue;
    LeftFragment left[kGroups];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) left[group] = as_left(weights[group][block]);
#pragma unroll
    for (int n = 0; n < kSize / 16; ++n) {
      const RightFragment right = load_right_rows(met, row + block * kGroup, n);
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        if (!has(run, group, block)) continue;
        multiply(sums[group][2 * n], sums[group][2 * n + 1], left[group], right);
      }
    }
  }
}

template <int kGroups, int kSize>
__device__ __forceinline__ void clear_sums(float (&sums)[kGroups][kSize / 8][4]) {
#pragma unroll
  for (int i = 0; i < kGroups * kSize / 2; ++i)
    sums[i / (kSize / 2)][i / 4 % (kSize / 8)][i % 4] = 0;
}

}  // namespace flywheel::cuda
