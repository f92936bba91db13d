#include "cuda/kernels/dispatch.h"
#include "cuda/kernels/row_order.h"

namespace flywheel::cuda {
namespace {

constexpr int kRows = 4;  // a block, one for each warp

struct EmbeddingTables {
  const void* table;
  const void* position_table;  // optional
  const std::int32_t* ids;
  const std::int32_t* positions;
  std::int64_t rows, width;
  std::int64_t table_rows, position_rows;
};

template <class T, int kCount>
__global__ void __launch_bounds__(kRows* kWarp)
    embedding_forward_kernel(T* out, EmbeddingTables args) {
  const std::int64_t row = row_of_warp();
  if (row >= args.rows) return;
  const std::int32_t id = args.ids[row];
  if (id < 0 || id >= args.table_rows) __trap();
  const T* word = static_cast<const T*>(args.table) + id * args.width;
  const T* place = nullptr;
  if (args.position_table) {
    const std::int32_t position = args.positions[row];
    if (position < 0 || position >= args.position_rows) __trap();
    place = static_cast<const T*>(args.position_table) + position * args.width;
  }
  for (std::int64_t c = lane_id() * kCount; c < args.width; c += kWarp * kCount) {
    Floats<kCount> values = load<kCount>(word + c);
    if (place) {
      const Floats<kCount> shift = load<kCount>(place + c);
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[i] += shift[i];
    }
    store(out + row * args.width + c, values);
  }
}

// table[key] += the rows of that key, in their order. The warp at the first row of a key serves it,
// in the columns that blockIdx.y says.
template <class T, int kCount>
__global__ void __launch_bounds__(kRows* kWarp)
    add_rows_kernel(float* table, const T* dout, RowOrder order, std::int64_t rows,
                    std::int64_t width, std::int64_t table_rows) {
  const std::int64_t first = row_of_warp();
  const std::int64_t column = (std::int64_t{blockIdx.y} * kWarp + lane_id()) * kCount;
  if (first >= rows || column >= width) return;
  const std::int32_t key = order.keys[first];
  if (first > 0 && order.keys[first - 1] == key) return;
  if (key < 0 || key >= table_rows) __trap();
  Floats<kCount> sum = load<kCount>(table + key * width + column);
  for (std::int64_t i = first; i < rows && order.keys[i] == key; ++i) {
    const Floats<kCount> values = load<kCount>(dout + order.rows[i] * width + column);
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum[j] += values[j];
  }
  store(table + key * width + column, sum);
}

void add_rows(const TensorView& table, const TensorView& dout, const TensorView& keys,
              const Workspace& workspace, cudaStream_t stream) {
  const std::int64_t rows = dout.shape[0];
  const std::int64_t width = dout.shape[1];
  const RowOrder order = sort_rows(keys.i32(), rows, table.shape[0], workspace, stream);
  for_dtype(dout.dtype, can_pack(width, {&table, &dout}), [&]<class T, int kCount>() {
    const dim3 grid(blocks_for(rows, kRows), blocks_for(width, kWarp * kCount));
    launch<add_rows_kernel<T, kCount>>(grid, kRows * kWarp, 0, stream, table.f32(),
                                       pointer_to<const T>(dout), order, rows, width,
                                       table.shape[0]);
  });
}

}  // namespace

void embedding_forward(const EmbeddingForward& args, cudaStream_t stream) {
  const std::int64_t rows = args.out.shape[0];
  const std::int64_t width = args.out.shape[1];
  if (rows == 0) return;
  const EmbeddingTables tables{
      .table = args.table.data,
      .position_table = args.position_table.data,
      .ids = args.ids.i32(),
      .positions = args.positions.i32(),
      .rows = rows,
      .width = width,
      .table_rows = args.table.shape[0],
      .position_rows = args.position_table ? args.position_table.shape[0] : 0};
  for_dtype(args.out.dtype, can_pack(width, {&args.out, &args.table, &args.position_table}),
            [&]<class T, int kCount>() {
              launch<embedding_forward_kernel<T, kCount>>(blocks_for(rows, kRows), kRows * kWarp, 0,
                                                          stream, pointer_to<T>(args.out), tables);
            });
}

void embedding_backward(const EmbeddingBackward& args, const Workspace& workspace,
                        cudaStream_t stream) {
  if (args.dout.shape[0] == 0) return;
  add_rows(args.dtable, args.dout, args.ids, workspace, stream);
  if (args.dposition_table) {
    add_rows(args.dposition_table, args.dout, args.positions, workspace, stream);
  }
}

}  // namespace flywheel::cuda
