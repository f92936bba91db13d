#include "cuda/kernels/column_sum.h"

#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {
namespace {

constexpr int kColumns = 32;
constexpr int kRows = 8;
constexpr std::int64_t kMostBlocks = 256;

struct ColumnSums {
  float at[kRows][kColumns];
};

// Block (x, y) sums columns 32 x ... over its rows_a_block rows into row y of out.
template <class T, bool kAccumulate>
__global__ void __launch_bounds__(kColumns* kRows)
    column_sum_kernel(float* out, const T* in, std::int64_t rows, std::int64_t columns,
                      std::int64_t rows_a_block) {
  auto& sums = static_shared<ColumnSums>();
  const int column_in_block = static_cast<int>(threadIdx.x);
  const int first_row = static_cast<int>(threadIdx.y);
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumns + column_in_block;
  const std::int64_t begin = std::int64_t{blockIdx.y} * rows_a_block;
  const std::int64_t end = min(rows, begin + rows_a_block);
  float sum = 0;
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + first_row; row < end; row += kRows) {
      sum += to_float(in[row * columns + column]);
    }
  }
  sums.at[first_row][column_in_block] = sum;
  __syncthreads();
  if (first_row > 0 || column >= columns) return;
  float total = 0;
#pragma unroll
  for (int row = 0; row < kRows; ++row) total += sums.at[row][column_in_block];
  float& result = out[std::int64_t{blockIdx.y} * columns + column];
  result = kAccumulate ? result + total : total;
}

dim3 grid_for(std::int64_t columns, unsigned row_blocks) {
  return {blocks_for(columns, kColumns), row_blocks};
}

template <class T>
void sum_rows(const BiasBackward& args, float* partials, cudaStream_t stream) {
  const auto [rows, columns] = std::pair(args.dout.shape[0], args.dout.shape[1]);
  const RowBlocks division = divide_rows(rows, 64, kMostBlocks);
  launch<column_sum_kernel<T, false>>(grid_for(columns, division.blocks), {kColumns, kRows}, 0,
                                      stream, partials, pointer_to<const T>(args.dout), rows,
                                      columns, division.rows_a_block);
  add_column_sums(args.dbias.f32(), partials, division.blocks, columns, stream);
}

}  // namespace

RowBlocks divide_rows(std::int64_t rows, std::int64_t least, std::int64_t limit) {
  const std::int64_t rows_a_block = max(least, (rows + limit - 1) / limit);
  return {rows_a_block, blocks_for(rows, rows_a_block)};
}

void add_column_sums(float* out, const float* in, std::int64_t rows, std::int64_t columns,
                     cudaStream_t stream) {
  launch<column_sum_kernel<float, true>>(grid_for(columns, 1), {kColumns, kRows}, 0, stream, out,
                                         in, rows, columns, rows);
}

void bias_backward(const BiasBackward& args, const Workspace& workspace, cudaStream_t stream) {
  if (args.dout.shape[0] == 0) return;
  const auto partials = scratch<float>(workspace, 0, kMostBlocks * args.dout.shape[1]);
  if (args.dout.dtype == DType::BF16) {
    sum_rows<bf16>(args, partials, stream);
  } else {
    sum_rows<float>(args, partials, stream);
  }
}

}  // namespace flywheel::cuda
