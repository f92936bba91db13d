#include <algorithm>
#include <cstdint>

#include "cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/gemm_kernel-inl.h"
#include "cpu/weights-inl.h"

// The blocking of Goto & van de Geijn 2008: a panel of B stays in the first-level cache, a block of
// A in the second, the packed block of B in the third. Threads share the packed B and take tiles of
// C, so K is never split between threads and every element of C is summed in the same order
// whatever their number.

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

// A matrix with element (i, k) at data[i * stride + k * k_stride]; one of the strides is 1.
struct Operand {
  const float* data;
  std::int64_t stride;
  std::int64_t k_stride;

  HWY_INLINE const float* at(std::int64_t i, std::int64_t k) const {
    return data + i * stride + k * k_stride;
  }
};

constexpr bool kWide = kLanes >= 16;
constexpr std::int64_t kDepth = kWide ? 384 : 256;                        // K of a packed block
constexpr std::int64_t kBlockRows = 24 * kTileRows;                       // rows of a block of A
constexpr std::int64_t kBlockColumns = (kWide ? 48 : 96) * kTileColumns;  // of packed B
static_assert((kBlockColumns + 1) * kDepth <= Workspace::kSharedFloats);
static_assert(kBlockRows * kDepth + kTileRows * kTileColumns <= Workspace::kThreadFloats);

constexpr std::int64_t tiles(std::int64_t extent, std::int64_t tile) {
  return (extent + tile - 1) / tile;
}

// C[rows of one block x panels of one range] of one K block.
struct Block {
  const Matmul& args;
  Operand a;
  std::int64_t k, depth;
  std::int64_t first_column, columns;  // of the packed block of B

  // Columns [panel * kTileColumns ...) of B.
  HWY_INLINE float* panel(const Workspace& workspace, std::int64_t index) const {
    return workspace.shared() + index * kTileColumns * depth;
  }
};

// The `rows` x `columns` tile of C at (row, column): a panel of A times one of B. `next` is what
// will be read soon. A tile over the edge of C goes through `scratch`.
template <Addend kAddend>
void tile_of_c(const Block& block, const float* a, const float* b, std::int64_t row,
               std::int64_t rows, std::int64_t column, std::int64_t columns, const float* next,
               float* scratch) {
  const std::int64_t stride = block.args.out.stride(0);
  float* c = block.args.out.f32() + row * stride + column;
  const float* bias = kAddend == Addend::kBias ? block.args.bias.f32() + column : nullptr;
  if (rows == kTileRows && columns % kLanes == 0) {
    const auto multiply = columns == kTileColumns ? multiply_tile<kTileVectors, kAddend>
                          : columns == kLanes     ? multiply_tile<1, kAddend>
                                                  : multiply_tile<2, kAddend>;
    multiply(block.depth, a, b, bias, c, stride, next);
    return;
  }
  multiply_tile<kTileVectors, Addend::kNothing>(block.depth, a, b, nullptr, scratch, kTileColumns,
                                                next);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < columns; ++j) {
      float sum = scratch[r * kTileColumns + j];
      if (kAddend == Addend::kOutput) sum += c[r * stride + j];
      if (kAddend == Addend::kBias) sum += bias[j];
      c[r * stride + j] = sum;
    }
  }
}

// Packs rows [row, row + rows) of A and multiplies them with panels [begin, end) of B.
template <Addend kAddend>
void multiply_block(const Block& block, std::int64_t row, std::int64_t rows, std::int64_t begin,
                    std::int64_t end, const Workspace& workspace, int thread) {
  float* packed_a = workspace.of_thread(thread);
  float* scratch = packed_a + kBlockRows * kDepth;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    pack_panel<kTileRows>(block.a.at(row + i, block.k), block.a.stride, block.a.k_stride,
                          std::min<std::int64_t>(kTileRows, rows - i), block.depth,
                          packed_a + i * block.depth);
  }
  for (std::int64_t panel = begin; panel < end; ++panel) {
    const std::int64_t column = panel * kTileColumns;
    const std::int64_t columns = std::min<std::int64_t>(kTileColumns, block.columns - column);
    const float* next = block.panel(workspace, panel + 1);
    for (std::int64_t i = 0; i < rows; i += kTileRows) {
      tile_of_c<kAddend>(block, packed_a + i * block.depth, block.panel(workspace, panel), row + i,
                         std::min<std::int64_t>(kTileRows, rows - i), block.first_column + column,
                         columns, next, scratch);
      next += block.depth / kStepsPerPrefetch * kCacheLine;
    }
  }
}

// Cuts C into tasks: about four for each thread, so that none waits long for the last.
struct Partition {
  std::int64_t rows_per_task, row_tasks;
  std::int64_t panels_per_task, column_tasks;

  Partition(std::int64_t rows, std::int64_t panels, int threads) {
    const std::int64_t wanted = threads == 1 ? 1 : 4 * threads;
    const std::int64_t row_tiles = tiles(rows, kTileRows);
    constexpr std::int64_t kFewestTiles = 6;  // fewer would not pay for loading a panel of B
    row_tasks = std::max(tiles(rows, kBlockRows), std::min(wanted, tiles(row_tiles, kFewestTiles)));
    const std::int64_t tiles_per_task = tiles(row_tiles, row_tasks);
    rows_per_task = tiles_per_task * kTileRows;
    row_tasks = tiles(row_tiles, tiles_per_task);
    column_tasks = std::min(panels, tiles(wanted, row_tasks));
    panels_per_task = tiles(panels, column_tasks);
    column_tasks = tiles(panels, panels_per_task);
  }
};

// The part of B that becomes one packed panel.
struct PanelOfB {
  const Matmul& args;
  std::int64_t first, columns;
  std::int64_t k, depth;
};

void pack_b(const FloatWeights& /*weights*/, const PanelOfB& panel, float* /*scratch*/,
            float* out) {
  const TensorView& b = panel.args.b;
  const bool transposed = panel.args.transpose_b;
  const Operand operand{b.f32(), transposed ? b.stride(0) : 1, transposed ? 1 : b.stride(0)};
  pack_panel<kTileColumns>(operand.at(panel.first, panel.k), operand.stride, operand.k_stride,
                           panel.columns, panel.depth, out);
}

// Through float32 in `scratch`, kTileColumns * depth elements.
template <class Weights>
void pack_b(const Weights& weights, const PanelOfB& panel, float* scratch, float* out) {
  const bool transposed = panel.args.transpose_b;
  const std::int64_t rows = transposed ? panel.columns : panel.depth;
  const std::int64_t width = transposed ? panel.depth : panel.columns;
  const std::int64_t row = transposed ? panel.first : panel.k;
  const std::int64_t column = transposed ? panel.k : panel.first;
  const std::int64_t stride = transposed ? panel.depth : kTileColumns;
  for (std::int64_t r = 0; r < rows; ++r) {
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(load_weights(weights, lanes, row + r, column + i), scratch + r * stride + i);
    });
  }
  pack_panel<kTileColumns>(scratch, transposed ? stride : 1, transposed ? 1 : stride, panel.columns,
                           panel.depth, out);
}

void gemm(const Matmul& args, ThreadPool& pool, const Workspace& workspace) {
  const std::int64_t M = args.out.shape[0];
  const std::int64_t N = args.out.shape[1];
  const std::int64_t K = args.a.shape[args.transpose_a ? 0 : 1];
  const Operand a{args.a.f32(), args.transpose_a ? 1 : args.a.stride(0),
                  args.transpose_a ? args.a.stride(0) : 1};
  constexpr std::int64_t kPackedPanels = 4;  // packed in one go

  for (std::int64_t column = 0; column < N; column += kBlockColumns) {
    for (std::int64_t k = 0; k < K; k += kDepth) {
      const Block block{
          args, a, k, std::min(kDepth, K - k), column, std::min(kBlockColumns, N - column)};
      const std::int64_t panels = tiles(block.columns, kTileColumns);
      pool.for_each(tiles(panels, kPackedPanels), [&](std::int64_t group, int thread) {
        const std::int64_t end = std::min(panels, (group + 1) * kPackedPanels);
        for (std::int64_t panel = group * kPackedPanels; panel < end; ++panel) {
          const std::int64_t first = panel * kTileColumns;
          const PanelOfB part{args, column + first,
                              std::min<std::int64_t>(kTileColumns, block.columns - first), k,
                              block.depth};
          // A is packed where the scratch is, but later.
          with_weights(args.b, [&](const auto& weights) {
            pack_b(weights, part, workspace.of_thread(thread), block.panel(workspace, panel));
          });
        }
      });
      const auto multiply = k > 0 || args.accumulate ? multiply_block<Addend::kOutput>
                            : args.bias              ? multiply_block<Addend::kBias>
                                                     : multiply_block<Addend::kNothing>;
      const Partition parts(M, panels, pool.size());
      pool.for_each(parts.row_tasks * parts.column_tasks,
                    [&](std::int64_t task, int thread) HWY_ATTR {
                      const std::int64_t row = task / parts.column_tasks * parts.rows_per_task;
                      const std::int64_t begin = task % parts.column_tasks * parts.panels_per_task;
                      multiply(block, row, std::min(parts.rows_per_task, M - row), begin,
                               std::min(panels, begin + parts.panels_per_task), workspace, thread);
                    });
    }
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(gemm);

void matmul(const Matmul& args, ThreadPool& pool, const Workspace& workspace) {
  if (args.few_rows) {
    matmul_few_rows(args, pool);
  } else {
    HWY_DYNAMIC_DISPATCH(gemm)(args, pool, workspace);
  }
}

}  // namespace flywheel::cpu
#endif
