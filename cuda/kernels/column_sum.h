#pragma once

#include "cuda/device/gpu.h"

namespace flywheel::cuda {

// Partial sums of a kernel are added in the order of its blocks, whatever order they ran in.
struct RowBlocks {
  std::int64_t rows_a_block;
  unsigned blocks;
};
// At most `limit` blocks of at least `least` rows; a function of these numbers alone, so that all
// GPUs add in the same order.
RowBlocks divide_rows(std::int64_t rows, std::int64_t least, std::int64_t limit);

// out[c] += sum over rows of in[row, c]; `in` is contiguous.
void add_column_sums(float* out, const float* in, std::int64_t rows, std::int64_t columns,
                     cudaStream_t stream);

}  // namespace flywheel::cuda
