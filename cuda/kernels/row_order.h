#pragma once

#include <cstdint>

#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {

// Rows sorted by their key; rows of one key keep their order.
struct RowOrder {
  const std::int32_t* keys;  // [rows], ascending
  const std::int32_t* rows;  // [rows], the row that each came from
};

// A stable radix sort of keys in [0, limit), in place of atomics, whose order differs from run to
// run. The order lies in the workspace.
RowOrder sort_rows(const std::int32_t* keys, std::int64_t rows, std::int64_t limit,
                   const Workspace& workspace, cudaStream_t stream);

}  // namespace flywheel::cuda
