#pragma once

#include "simt/emulator/device.h"
#include "simt/emulator/launch.h"

// What the inline PTX of cuda/device/intrinsics.h does, as exact C++.
namespace simt {

struct MmaRecord {
  std::uint32_t a[4], b[2];
  float c[4];
  float* d;
};

// Layouts of PTX ISA, "Matrix Fragments for mma.m16n8k16": with g = lane / 4 and t = lane % 4,
// register r of a holds rows g + 8 (r & 1), columns 2 t + 8 (r >> 1) and the next one; of b, rows
// 2 t + 8 r and the next one, column g; of c and d, rows g + 8 (r >> 1), columns 2 t + (r & 1).
SIMT_UNCHECKED inline void multiply_fragments(MmaRecord** lanes, std::uint32_t) {
  float a[16][16];
  float b[16][8];
  const auto low = [](std::uint32_t pair) { return std::bit_cast<float>(pair << 16); };
  const auto high = [](std::uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000U); };
  for (int lane = 0; lane < 32; ++lane) {
    const MmaRecord& record = *lanes[lane];
    const int g = lane / 4;
    const int t = lane % 4 * 2;
    for (int r = 0; r < 4; ++r) {
      const int row = g + (r & 1) * 8;
      const int column = t + (r >> 1) * 8;
      a[row][column] = low(record.a[r]);
      a[row][column + 1] = high(record.a[r]);
    }
    for (int r = 0; r < 2; ++r) {
      b[t + r * 8][g] = low(record.b[r]);
      b[t + r * 8 + 1][g] = high(record.b[r]);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const MmaRecord& record = *lanes[lane];
    for (int r = 0; r < 4; ++r) {
      const int row = lane / 4 + (r >> 1) * 8;
      const int column = lane % 4 * 2 + (r & 1);
      float sum = record.c[r];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      record.d[r] = sum;
    }
  }
}

struct MatrixRecord {
  alignas(16) std::uint16_t row[8];
  std::uint32_t* registers;
};

// Lane 8 i + j names row j of matrix i; register i of lane l gets elements 2 (l % 4) and the next
// one of row l / 4 of matrix i, or of its transpose.
template <bool kTransposed>
SIMT_UNCHECKED void distribute_matrices(MatrixRecord** lanes, std::uint32_t) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int g = lane / 4;
      const int t = lane % 4 * 2;
      const std::uint32_t low = kTransposed ? lanes[i * 8 + t]->row[g] : lanes[i * 8 + g]->row[t];
      const std::uint32_t high =
          kTransposed ? lanes[i * 8 + t + 1]->row[g] : lanes[i * 8 + g]->row[t + 1];
      lanes[lane]->registers[i] = low | high << 16;
    }
  }
}

using Access16 = AccessOf<16>::Type;

template <bool kTransposed>
void load_matrices(std::uint32_t (&registers)[4], const void* row, const char* name,
                   SourceLine line) {
  if (shared_offset(row) % 16 != 0) fail(std::string(name) + ": a row is not aligned to 16 bytes");
  MatrixRecord record;
  record.registers = registers;
  // Read here, so that check mode sees which lane reads what.
  const Access16 bits = *static_cast<const Access16*>(row);
  std::memcpy(record.row, &bits, sizeof(bits));
  collective(~0U, name, record, line, distribute_matrices<kTransposed>);
}

void queue_copy(void* to, const void* from, bool valid);
void commit_copies();
void wait_for_copies(int groups_in_flight);

}  // namespace simt

inline void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                         const float (&c)[4], simt::SourceLine line = simt::SourceLine::here()) {
  simt::MmaRecord record{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}, {c[0], c[1], c[2], c[3]}, d};
  simt::collective(~0U, "mma_m16n8k16", record, line, simt::multiply_fragments);
}
inline void ldmatrix_x4(std::uint32_t (&registers)[4], const void* row,
                        simt::SourceLine line = simt::SourceLine::here()) {
  simt::load_matrices<false>(registers, row, "ldmatrix_x4", line);
}
inline void ldmatrix_x4_trans(std::uint32_t (&registers)[4], const void* row,
                              simt::SourceLine line = simt::SourceLine::here()) {
  simt::load_matrices<true>(registers, row, "ldmatrix_x4_trans", line);
}
inline void cp_async_16(void* shared, const void* global, bool valid = true) {
  simt::queue_copy(shared, global, valid);
}
inline void cp_async_commit() {
  simt::commit_copies();
}
template <int kGroupsInFlight>
void cp_async_wait() {
  simt::wait_for_copies(kGroupsInFlight);
}
inline float fast_exp2(float x) {
  const float result = std::exp2(x);
  return result < 0x1p-126F ? 0 : result;
}
inline std::uint32_t pack_bf16(float low, float high) {
  return std::uint32_t{simt::round_to_bf16(low)} | std::uint32_t{simt::round_to_bf16(high)} << 16;
}
inline void bar_sync(int id, int threads, simt::SourceLine line = simt::SourceLine::here()) {
  simt::barrier({.id = id, .threads = threads, .name = "bar_sync"}, line);
}
inline void bar_arrive(int id, int threads, simt::SourceLine line = simt::SourceLine::here()) {
  simt::barrier({.id = id, .threads = threads, .wait = false, .name = "bar_arrive"}, line);
}
