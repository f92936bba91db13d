#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "cpu/gemm_operand.h"
#include "cpu/kernels.h"
#include "cpu/matrix_units.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/gemm_kernel-inl.h"
#include "cpu/weights-inl.h"
#if HWY_TARGET == HWY_AVX3
#include "cpu/gemm_amx-inl.h"
#endif

// The blocking of Goto & van de Geijn 2008: a panel of B stays in the first-level cache (on AMX,
// with its deeper panels, in the second), a block of A in the second, the packed block of B in the
// third. Threads share the packed B and take tiles of C, so K is never split between threads and
// every element of C is summed in the same order whatever their number.
//
// A kernel says how large panels (kRows of A, kColumns of B) and blocks are, packs panels, and
// multiplies two of them into a tile of C.

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

constexpr std::int64_t tiles(std::int64_t extent, std::int64_t tile) {
  return (extent + tile - 1) / tile;
}

// C[rows of one block x panels of one range] of one K block.
struct Block {
  const Matmul& args;
  Operand a;
  std::int64_t k, depth;
  std::int64_t first_column, columns;  // of the packed block of B
  float* packed_b;
};

// Packs rows [row, row + rows) of A and multiplies them with panels [begin, end) of B.
template <class Kernel, Addend kAddend>
void multiply_block(const Block& block, std::int64_t row, std::int64_t rows, std::int64_t begin,
                    std::int64_t end, float* packed_a) {
  [[maybe_unused]] const typename Kernel::Session session;
  const std::int64_t a_floats = Kernel::a_panel_floats(block.depth);
  const std::int64_t b_floats = Kernel::b_panel_floats(block.depth);
  const std::int64_t stride = block.args.out.stride(0);
  for (std::int64_t i = 0; i < rows; i += Kernel::kRows) {
    Kernel::pack_a(block.a.from(row + i, block.k), std::min(Kernel::kRows, rows - i), block.depth,
                   packed_a + i / Kernel::kRows * a_floats);
  }
  for (std::int64_t panel = begin; panel < end; ++panel) {
    const std::int64_t column = block.first_column + panel * Kernel::kColumns;
    const float* b = block.packed_b + panel * b_floats;
    const float* next = b + b_floats;
    for (std::int64_t i = 0; i < rows; i += Kernel::kRows) {
      const TileOfC tile{
          .c = block.args.out.f32() + (row + i) * stride + column,
          .stride = stride,
          .rows = std::min(Kernel::kRows, rows - i),
          .columns = std::min(Kernel::kColumns, block.first_column + block.columns - column),
          .bias = kAddend == Addend::kBias ? block.args.bias.f32() + column : nullptr};
      Kernel::template multiply<kAddend>(block.depth, packed_a + i / Kernel::kRows * a_floats, b,
                                         tile, next);
      next += Kernel::prefetched_floats(block.depth);
    }
  }
}

// Cuts C into tasks: about four for each thread, so that none waits long for the last.
template <class Kernel>
struct Partition {
  std::int64_t rows_per_task, row_tasks;
  std::int64_t panels_per_task, column_tasks;

  Partition(std::int64_t rows, std::int64_t panels, int threads) {
    const std::int64_t wanted = threads == 1 ? 1 : 4 * threads;
    const std::int64_t row_tiles = tiles(rows, Kernel::kRows);
    row_tasks = std::max(tiles(rows, Kernel::kBlockRows),
                         std::min(wanted, tiles(row_tiles, Kernel::kFewestPanels)));
    const std::int64_t tiles_per_task = tiles(row_tiles, row_tasks);
    rows_per_task = tiles_per_task * Kernel::kRows;
    row_tasks = tiles(row_tiles, tiles_per_task);
    column_tasks = std::min(panels, tiles(wanted, row_tasks));
    panels_per_task = tiles(panels, column_tasks);
    column_tasks = tiles(panels, panels_per_task);
  }
};

template <class Kernel>
void pack_b(const FloatWeights& weights, const PanelOfB& panel, float* /*scratch*/, float* out) {
  const std::byte* begin = weights.row(panel.row()) + FloatWeights::offset(panel.column());
  const auto* from = reinterpret_cast<const float*>(begin);
  const std::int64_t stride = weights.stride();
  const Operand operand{from, panel.transposed ? stride : 1, panel.transposed ? 1 : stride};
  Kernel::pack_b(operand, panel.columns, panel.depth, out);
}

// Through float32 in `scratch`, columns * depth elements.
template <class Kernel, class Weights>
void pack_b(const Weights& weights, const PanelOfB& panel, float* scratch, float* out) {
  const std::int64_t rows = panel.transposed ? panel.columns : panel.depth;
  const std::int64_t width = panel.transposed ? panel.depth : panel.columns;
  const std::int64_t stride = panel.transposed ? panel.depth : Kernel::kColumns;
  for (std::int64_t r = 0; r < rows; ++r) {
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(load_weights(weights, lanes, panel.row() + r, panel.column() + i),
                  scratch + r * stride + i);
    });
  }
  const Operand operand{scratch, panel.transposed ? stride : 1, panel.transposed ? 1 : stride};
  Kernel::pack_b(operand, panel.columns, panel.depth, out);
}

template <class Kernel>
void pack_b(const InterleavedWeights& weights, const PanelOfB& panel, float* scratch, float* out) {
  constexpr std::int64_t kStride = std::max(Kernel::kColumns, kInterleavedRows);
  static_assert(kStride % Kernel::kColumns == 0 && kStride % kInterleavedRows == 0);
  const std::int64_t skip = panel.first % kInterleavedRows;  // narrow panels begin inside a group
  for (std::int64_t group = 0; group < skip + panel.columns; group += kInterleavedRows) {
    for (std::int64_t k = 0; k < panel.depth; k += kWeightBlock) {
      InterleavedWeights::unpack(weights.block(panel.first - skip + group, panel.k + k),
                                 scratch + k * kStride + group, kStride);
    }
  }
  Kernel::pack_b(Operand{scratch + skip, 1, kStride}, panel.columns, panel.depth, out);
}

// As the kernel packs weights of this type itself, if it does. Some kernels take only those.
template <class Kernel, class Weights>
void pack_panel_of_b(const Weights& weights, const PanelOfB& panel, float* scratch, float* out) {
  if constexpr (requires { Kernel::pack_weights(weights, panel, out); }) {
    Kernel::pack_weights(weights, panel, out);
  } else if constexpr (requires { &Kernel::pack_b; }) {
    pack_b<Kernel>(weights, panel, scratch, out);
  } else {
    fail(ErrorKind::Internal, "a kernel of matmul was chosen for weights that it cannot pack");
  }
}

template <class Kernel>
void gemm_by(const Matmul& args, ThreadPool& pool, const Workspace& workspace) {
  static_assert(Kernel::kBlockColumns / Kernel::kColumns * Kernel::b_panel_floats(Kernel::kDepth) <=
                Workspace::kSharedFloats);
  static_assert(Kernel::kBlockRows / Kernel::kRows * Kernel::a_panel_floats(Kernel::kDepth) <=
                Workspace::kThreadFloats);
  static_assert(std::max(Kernel::kColumns, kInterleavedRows) * Kernel::kDepth <=
                Workspace::kThreadFloats);
  const std::int64_t M = args.out.shape[0];
  const std::int64_t N = args.out.shape[1];
  const std::int64_t K = args.a.shape[args.transpose_a ? 0 : 1];
  const Operand a{args.a.f32(), args.transpose_a ? 1 : args.a.stride(0),
                  args.transpose_a ? args.a.stride(0) : 1};
  constexpr std::int64_t kPackedPanels = 4;  // packed in one go

  for (std::int64_t column = 0; column < N; column += Kernel::kBlockColumns) {
    for (std::int64_t k = 0; k < K; k += Kernel::kDepth) {
      const Block block{.args = args,
                        .a = a,
                        .k = k,
                        .depth = std::min(Kernel::kDepth, K - k),
                        .first_column = column,
                        .columns = std::min(Kernel::kBlockColumns, N - column),
                        .packed_b = workspace.shared()};
      const std::int64_t panels = tiles(block.columns, Kernel::kColumns);
      pool.for_each(tiles(panels, kPackedPanels), [&](std::int64_t group, int thread) {
        const std::int64_t end = std::min(panels, (group + 1) * kPackedPanels);
        for (std::int64_t panel = group * kPackedPanels; panel < end; ++panel) {
          const std::int64_t first = panel * Kernel::kColumns;
          const PanelOfB part{args.transpose_b, column + first,
                              std::min(Kernel::kColumns, block.columns - first), k, block.depth};
          // A is packed where the scratch is, but later.
          with_weights(args.b, [&](const auto& weights) {
            pack_panel_of_b<Kernel>(weights, part, workspace.of_thread(thread),
                                    block.packed_b + panel * Kernel::b_panel_floats(block.depth));
          });
        }
      });
      const auto multiply = k > 0 || args.accumulate ? multiply_block<Kernel, Addend::kOutput>
                            : args.bias              ? multiply_block<Kernel, Addend::kBias>
                                                     : multiply_block<Kernel, Addend::kNothing>;
      const Partition<Kernel> parts(M, panels, pool.size());
      pool.for_each(parts.row_tasks * parts.column_tasks, [&](std::int64_t task, int thread) {
        const std::int64_t row = task / parts.column_tasks * parts.rows_per_task;
        const std::int64_t begin = task % parts.column_tasks * parts.panels_per_task;
        multiply(block, row, std::min(parts.rows_per_task, M - row), begin,
                 std::min(panels, begin + parts.panels_per_task), workspace.of_thread(thread));
      });
    }
  }
}

void gemm(const Matmul& args, ThreadPool& pool, const Workspace& workspace) {
#if HWY_TARGET == HWY_AVX3
  if (use_amx()) {
    const DType type = args.b.dtype;
    const bool rows_of_blocks = args.transpose_b && (type == DType::Q8_0 || type == DType::Q8_0x16);
    const auto by_tiles = rows_of_blocks        ? gemm_by<AmxBlockKernel>
                          : type == DType::BF16 ? gemm_by<AmxKernel<1>>
                                                : gemm_by<AmxKernel<3>>;
    return by_tiles(args, pool, workspace);
  }
#endif
  gemm_by<VectorKernel>(args, pool, workspace);
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(gemm);

void matmul(const Matmul& args, ThreadPool& pool, const Workspace& workspace) {
  if (args.few_rows) {
    matmul_few_rows(args, pool, workspace);
  } else {
    HWY_DYNAMIC_DISPATCH(gemm)(args, pool, workspace);
  }
}

}  // namespace flywheel::cpu
#endif
