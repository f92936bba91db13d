#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "cpu/kernels.h"
#include "cpu/matrix_units.h"
#include "cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm_few_rows.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes first.
#include "cpu/weights-inl.h"
#if HWY_TARGET == HWY_AVX3
#include "cpu/gemm_vnni-inl.h"
#endif

// The products of decoding: a few rows of A, so that the time is that of reading B from memory. B
// is read once, where it lies; more than kMostRows rows read its pieces again, from the caches. An
// element's sum has the same order whatever the number of rows and of threads.

HWY_BEFORE_NAMESPACE();
namespace flywheel::cpu::HWY_NAMESPACE {

constexpr std::int64_t kMostRows = 8;  // whose sums fit the registers

template <class Weights>
struct FewRows {
  const float* a;
  std::int64_t a_stride;
  Weights b;
  float* out;
  std::int64_t out_stride;
  const float* bias;  // or null
  std::int64_t depth;
  bool accumulate;

  FewRows from_row(std::int64_t row) const {
    FewRows rest = *this;
    rest.a += row * a_stride;
    rest.out += row * out_stride;
    return rest;
  }
  HWY_INLINE float addend(std::int64_t row, std::int64_t column) const {
    if (accumulate) return out[row * out_stride + column];
    return bias != nullptr ? bias[column] : 0.0F;
  }
  HWY_INLINE void store_group(const float* sums, std::int64_t row, std::int64_t column,
                              std::int64_t end) const {
    float* to = out + row * out_stride;
    for (std::int64_t c = column; c < std::min(end, column + kInterleavedRows); ++c) {
      to[c] = sums[c - column] + addend(row, c);
    }
  }
};

// body(i, lanes) for consecutive runs of [0, count).
template <class Weights, class Body>
HWY_INLINE void for_runs(std::int64_t count, const Body& body) {
  if constexpr (Weights::kRun == 1) {
    for_vectors(count, body);
  } else {
    for (std::int64_t i = 0; i < count; i += kWeightBlock) body(i, WholeVector());
  }
}

// B is [N, K]: kColumns of its rows, each times all rows of A.
template <int kRows, int kColumns, class Weights>
HWY_INLINE void dot_columns(const FewRows<Weights>& m, std::int64_t column) {
  constexpr std::int64_t kAhead = 1024;  // elements of a row, then of those of the next columns
  const std::int64_t ahead_in_row = Weights::offset(kAhead);
  const std::int64_t ahead_beyond =
      m.b.row(kColumns) - m.b.row(0) + ahead_in_row - Weights::offset(m.depth);
  const F32 d;
  const std::byte* columns[kColumns];
  F32Vector sums[kColumns][kRows];
  HWY_UNROLL(8)
  for (int c = 0; c < kColumns; ++c) {
    columns[c] = m.b.row(column + c);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) sums[c][r] = hn::Zero(d);
  }
  for_runs<Weights>(m.depth, [&](std::int64_t k, auto lanes) HWY_ATTR {
    const std::int64_t at = Weights::offset(k);
    const std::int64_t ahead = at + (k + kAhead < m.depth ? ahead_in_row : ahead_beyond);
    HWY_UNROLL(8)
    for (int c = 0; c < kColumns; ++c) {
      hwy::Prefetch(columns[c] + ahead);
      const auto run = Weights::run(columns[c] + at);
      HWY_UNROLL(8)
      for (int v = 0; v < Weights::kRun; ++v) {
        const auto x = run.load(lanes, v);
        HWY_UNROLL(8)
        for (int r = 0; r < kRows; ++r) {
          const float* a = m.a + r * m.a_stride + k + v * kVectorLanes;
          sums[c][r] = hn::MulAdd(x, lanes.load(a), sums[c][r]);
        }
      }
    }
  });
  HWY_UNROLL(8)
  for (int c = 0; c < kColumns; ++c) {
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      float* out = m.out + r * m.out_stride + column + c;
      *out = hn::GetLane(hn::SumOfLanes(d, sums[c][r])) + m.addend(r, column + c);
    }
  }
}

template <int kRows, class Weights>
void dot_range(const FewRows<Weights>& m, std::int64_t begin, std::int64_t end) {
  constexpr int kSums = kVectorLanes >= 16 ? 24 : 12;  // that fit the registers
  constexpr int kColumns = std::clamp(kSums / kRows, 1, 4);
  std::int64_t column = begin;
  for (; column + kColumns <= end; column += kColumns) dot_columns<kRows, kColumns>(m, column);
  for (; column < end; ++column) dot_columns<kRows, 1>(m, column);
}

// B is [K, N]: adds kDepth of its rows from k on, times A's columns, to columns [begin, end) of
// out.
template <int kRows, int kDepth, class Weights>
HWY_INLINE void add_rows(const FewRows<Weights>& m, std::int64_t k, std::int64_t begin,
                         std::int64_t end) {
  const F32 d;
  const std::byte* rows = m.b.row(k) + Weights::offset(begin);
  const std::int64_t row_bytes = m.b.row(1) - m.b.row(0);
  const std::byte* rows_ahead =
      rows + std::min<std::int64_t>(kDepth, m.depth - kDepth - k) * row_bytes;
  for_runs<Weights>(end - begin, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const std::int64_t at = Weights::offset(i);
    typename Weights::Run runs[kDepth];
    HWY_UNROLL(8)
    for (int j = 0; j < kDepth; ++j) {
      hwy::Prefetch(rows_ahead + j * row_bytes + at);
      runs[j] = Weights::run(rows + j * row_bytes + at);
    }
    HWY_UNROLL(8)
    for (int v = 0; v < Weights::kRun; ++v) {
      F32Vector x[kDepth];
      HWY_UNROLL(8)
      for (int j = 0; j < kDepth; ++j) x[j] = runs[j].load(lanes, v);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        float* out = m.out + r * m.out_stride + begin + i + v * kVectorLanes;
        const float* a = m.a + r * m.a_stride + k;
        auto sum = lanes.load(out);
        HWY_UNROLL(8)
        for (int j = 0; j < kDepth; ++j) sum = hn::MulAdd(hn::Set(d, a[j]), x[j], sum);
        lanes.store(sum, out);
      }
    }
  });
}

template <int kRows, class Weights>
void sum_range(const FewRows<Weights>& m, std::int64_t begin, std::int64_t end) {
  constexpr int kDepth = 8;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t column = begin; column < end; ++column) {
      m.out[r * m.out_stride + column] = m.addend(r, column);
    }
  }
  std::int64_t k = 0;
  for (; k + kDepth <= m.depth; k += kDepth) add_rows<kRows, kDepth>(m, k, begin, end);
  for (; k < m.depth; ++k) add_rows<kRows, 1>(m, k, begin, end);
}

// The group of columns of the output from `column` on, without those from `end` on; B is unpacked
// block by block.
void dot_group(const FewRows<InterleavedWeights>& m, std::int64_t rows, std::int64_t column,
               std::int64_t end) {
  HWY_ALIGN float weights[kWeightBlock * kInterleavedRows];
  HWY_ALIGN float sums[kMostRows * kInterleavedRows] = {};
  for (std::int64_t k = 0; k < m.depth; k += kWeightBlock) {
    InterleavedWeights::unpack(m.b.block(column, k), weights, kInterleavedRows);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* a = m.a + r * m.a_stride + k;
      for_vectors(kInterleavedRows, [&](std::int64_t c, auto lanes) HWY_ATTR {
        auto of_block = hn::Zero(F32());
        for (std::int64_t i = 0; i < kWeightBlock; ++i) {
          const auto x = lanes.load(weights + i * kInterleavedRows + c);
          of_block = hn::MulAdd(hn::Set(F32(), a[i]), x, of_block);
        }
        float* sum = sums + r * kInterleavedRows + c;
        lanes.store(hn::Add(of_block, lanes.load(sum)), sum);
      });
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    m.store_group(sums + r * kInterleavedRows, r, column, end);
  }
}

template <class Weights>
using Range = void (*)(const FewRows<Weights>&, std::int64_t, std::int64_t);

template <class Weights, int... kRow>
Range<Weights> range_of(std::int64_t rows, bool transposed, std::integer_sequence<int, kRow...>) {
  static constexpr std::array<Range<Weights>, sizeof...(kRow)> kDot{
      dot_range<kRow + 1, Weights>...};
  static constexpr std::array<Range<Weights>, sizeof...(kRow)> kSum{
      sum_range<kRow + 1, Weights>...};
  return (transposed ? kDot : kSum)[static_cast<std::size_t>(rows - 1)];
}

template <class Weights>
FewRows<Weights> few_rows(const Weights& b, const Matmul& args) {
  return {args.a.f32(),    args.a.stride(0), b, args.out.f32(), args.out.stride(0), args.bias.f32(),
          args.a.shape[1], args.accumulate};
}

// body(begin, end) for pieces of the output's columns. A thread takes long ranges of neighbouring
// ones, since a range begins before what it reads was prefetched.
template <class Body>
void for_columns(const Matmul& args, ThreadPool& pool, const Body& body) {
  constexpr std::int64_t kLeast = 32 * 1024;  // elements of B for a thread, and of a piece
  constexpr std::int64_t kLong = 96 * 1024;   // for a range, if there are several for each thread
  constexpr std::int64_t kMostRanges = 4;     // for a thread: it may be slower than the others
  const std::int64_t columns = args.out.shape[1];
  const std::int64_t depth = std::max<std::int64_t>(1, args.a.shape[1]);
  const std::int64_t elements = columns * depth;
  const std::int64_t threads = std::min<std::int64_t>(pool.size(), 1 + elements / kLeast);
  const std::int64_t ranges =
      threads * std::clamp<std::int64_t>(elements / (threads * kLong), 1, kMostRanges);
  const std::int64_t grain = args.transpose_b ? kInterleavedRows : kWeightBlock;
  const std::int64_t width =
      std::max(grain, (columns + ranges * grain - 1) / (ranges * grain) * grain);
  // Rows of B are taken whole, columns as long as they are.
  const std::int64_t piece =
      args.transpose_b ? std::max(grain, kLeast / depth / grain * grain) : width;
  pool.for_each((columns + width - 1) / width, [&](std::int64_t range, int) {
    const std::int64_t end = std::min(columns, (range + 1) * width);
    for (std::int64_t begin = range * width; begin < end; begin += piece) {
      body(begin, std::min(end, begin + piece));
    }
  });
}

#if HWY_TARGET == HWY_AVX3
// Groups of columns from `begin` on times kRows rows of A, which are digits.
template <int kRows>
void digit_range(const FewRows<InterleavedWeights>& m, const DigitBlock* a, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t column = begin; column < end; column += kInterleavedRows) {
    __m512 sums[kRows];
    multiply_group<kRows>(m.b.block(column, 0), a, m.depth / kWeightBlock, sums);
    for (int r = 0; r < kRows; ++r) {
      HWY_ALIGN float group[kInterleavedRows];
      _mm512_store_ps(group, sums[r]);
      m.store_group(group, r, column, end);
    }
  }
}

template <int... kRow>
auto digit_range_of(std::int64_t rows, std::integer_sequence<int, kRow...>) {
  static constexpr std::array kRanges{digit_range<kRow + 1>...};
  return kRanges[static_cast<std::size_t>(rows - 1)];
}

void multiply_few_digits(const InterleavedWeights& b, const Matmul& args, ThreadPool& pool,
                         const Workspace& workspace) {
  const FewRows<InterleavedWeights> all = few_rows(b, args);
  const std::int64_t blocks = all.depth / kWeightBlock;
  auto* digits = reinterpret_cast<DigitBlock*>(workspace.shared());
  constexpr auto kRoom =
      static_cast<std::int64_t>(Workspace::kSharedFloats * sizeof(float) / sizeof(DigitBlock));
  require(kMostRows * blocks <= kRoom, ErrorKind::Internal,
          "matmul: rows of {} elements need more workspace", all.depth);
  const std::int64_t rows = args.out.shape[0];
  const std::int64_t together = kRoom / std::max<std::int64_t>(1, blocks) / kMostRows * kMostRows;
  for (std::int64_t first = 0; first < rows; first += together) {
    const FewRows<InterleavedWeights> m = all.from_row(first);
    const std::int64_t count = std::min(together, rows - first);
    pool.for_range(count, row_grain(all.depth), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t block = 0; block < blocks; ++block) {
          to_digits(m.a + row * m.a_stride + block * kWeightBlock, digits[row * blocks + block]);
        }
      }
    });
    for_columns(args, pool, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < count; row += kMostRows) {
        const auto range =
            digit_range_of(std::min(kMostRows, count - row),
                           std::make_integer_sequence<int, static_cast<int>(kMostRows)>());
        range(m.from_row(row), digits + row * blocks, begin, end);
      }
    });
  }
}
#endif

template <class Weights>
void multiply_few_rows(const Weights& b, const Matmul& args, ThreadPool& pool,
                       const Workspace& /*workspace*/) {
  const FewRows<Weights> m = few_rows(b, args);
  const std::int64_t rows = args.out.shape[0];
  for_columns(args, pool, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < rows; row += kMostRows) {
      const auto range =
          range_of<Weights>(std::min(kMostRows, rows - row), args.transpose_b,
                            std::make_integer_sequence<int, static_cast<int>(kMostRows)>());
      range(m.from_row(row), begin, end);
    }
  });
}

void multiply_few_rows(const InterleavedWeights& b, const Matmul& args, ThreadPool& pool,
                       [[maybe_unused]] const Workspace& workspace) {
#if HWY_TARGET == HWY_AVX3
  if (use_vnni()) return multiply_few_digits(b, args, pool, workspace);
#endif
  const FewRows<InterleavedWeights> m = few_rows(b, args);
  const std::int64_t rows = args.out.shape[0];
  for_columns(args, pool, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < end; column += kInterleavedRows) {
      for (std::int64_t row = 0; row < rows; row += kMostRows) {
        dot_group(m.from_row(row), std::min(kMostRows, rows - row), column, end);
      }
    }
  });
}

void gemm_few_rows(const Matmul& args, ThreadPool& pool, const Workspace& workspace) {
  with_weights(args.b, [&](const auto& b) { multiply_few_rows(b, args, pool, workspace); });
}

}  // namespace flywheel::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flywheel::cpu {

HWY_EXPORT(gemm_few_rows);

void matmul_few_rows(const Matmul& args, ThreadPool& pool, const Workspace& workspace) {
  HWY_DYNAMIC_DISPATCH(gemm_few_rows)(args, pool, workspace);
}

}  // namespace flywheel::cpu
#endif
