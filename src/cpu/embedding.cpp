#include <algorithm>

#include "cpu/kernels.h"
#include "cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/embedding.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

template <class Weights>
void table_row(const Weights& table, std::int64_t word, std::int64_t width, float* out) {
  for_vectors(width, [&](std::int64_t i, auto lanes)
                         HWY_ATTR { lanes.store(load_weights(table, lanes, word, i), out + i); });
}

void table_row(const InterleavedWeights& table, std::int64_t word, std::int64_t width, float* out) {
  for (std::int64_t i = 0; i < width; ++i) out[i] = table.element(word, i);
}

template <class Weights>
void table_rows(const Weights& table, const EmbeddingForward& args, std::int64_t begin,
                std::int64_t end) {
  const std::int64_t width = args.out.shape[1];
  for (std::int64_t row = begin; row < end; ++row) {
    float* out = args.out.f32() + row * width;
    table_row(table, args.ids.i32()[row], width, out);
    if (!args.position_table) continue;
    const float* place = args.position_table.f32() + args.positions.i32()[row] * width;
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(out + i), lanes.load(place + i)), out + i);
    });
  }
}

void embedding_rows(const EmbeddingForward& args, std::int64_t begin, std::int64_t end) {
  with_weights(args.table, [&](const auto& table) { table_rows(table, args, begin, end); });
}

// table[ids[t]] += dout[t] in columns [begin, end), for all tokens in order.
void add_rows_at(const TensorView& table, const TensorView& ids, const TensorView& dout,
                 std::int64_t begin, std::int64_t end) {
  const std::int64_t width = dout.shape[1];
  for (std::int64_t row = 0; row < dout.shape[0]; ++row) {
    const float* from = dout.f32() + row * width + begin;
    float* to = table.f32() + ids.i32()[row] * width + begin;
    for_vectors(end - begin, [&](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(to + i), lanes.load(from + i)), to + i);
    });
  }
}

void add_rows(float* sum, const float* rows, std::int64_t count, std::int64_t width) {
  for (std::int64_t row = 0; row < count; ++row) {
    const float* from = rows + row * width;
    for_vectors(width, [&](std::int64_t i, auto lanes) HWY_ATTR {
      lanes.store(hn::Add(lanes.load(sum + i), lanes.load(from + i)), sum + i);
    });
  }
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(embedding_rows);
HWY_EXPORT(add_rows_at);
HWY_EXPORT(add_rows);

void embedding_forward(const EmbeddingForward& args, ThreadPool& pool) {
  check_indices("embedding_forward: ids", args.ids, args.table.shape[0]);
  if (args.position_table) {
    check_indices("embedding_forward: positions", args.positions, args.position_table.shape[0]);
  }
  pool.for_range(args.out.shape[0], row_grain(args.out.shape[1]),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(embedding_rows)(args, begin, end);
                 });
}

void embedding_backward(const EmbeddingBackward& args, ThreadPool& pool) {
  check_indices("embedding_backward: ids", args.ids, args.dtable.shape[0]);
  if (args.dposition_table) {
    check_indices("embedding_backward: positions", args.positions, args.dposition_table.shape[0]);
  }
  constexpr std::int64_t kCacheLine = 16;  // threads must not share one
  pool.for_range(args.dout.shape[1], kCacheLine, [&](std::int64_t begin, std::int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(add_rows_at)(args.dtable, args.ids, args.dout, begin, end);
    if (args.dposition_table) {
      HWY_DYNAMIC_DISPATCH(add_rows_at)
      (args.dposition_table, args.positions, args.dout, begin, end);
    }
  });
}

void bias_backward(const BiasBackward& args, ThreadPool& pool, const Workspace& workspace) {
  const std::int64_t width = args.dout.shape[1];
  sum_over_row_blocks(
      args.dout.shape[0], width, {args.dbias.f32()},
      [&](std::int64_t begin, std::int64_t end, float* partial) {
        HWY_DYNAMIC_DISPATCH(add_rows)
        (partial, args.dout.f32() + begin * width, end - begin, width);
      },
      pool, workspace);
}

}  // namespace flywheel::cpu
#endif
