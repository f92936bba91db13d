#include "cuda/kernels/row_order.h"

#include "cuda/kernels/dispatch.h"

namespace flywheel::cuda {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;  // and threads of a block: thread d serves digit d
constexpr int kTile = 1024;               // rows of a block

// A tile's keys, and the rows that they belong to.
struct Tile {
  std::int32_t keys[kTile];
  std::int32_t rows[kTile];
};

struct SortPass {
  const std::int32_t* keys;
  const std::int32_t* rows;  // null: row i is i
  std::int32_t* sorted_keys;
  std::int32_t* sorted_rows;
  std::int32_t* counts;  // [digits, tiles]: how many, then where the first goes
  std::int64_t count;
  int shift;
  int tiles;
};

__device__ __forceinline__ int load_tile(Tile& tile, const SortPass& pass) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * kTile;
  const int size = static_cast<int>(min(std::int64_t{kTile}, pass.count - begin));
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kDigits) {
    tile.keys[i] = pass.keys[begin + i];
    tile.rows[i] = pass.rows ? pass.rows[begin + i] : static_cast<std::int32_t>(begin + i);
  }
  __syncthreads();
  return size;
}

__device__ __forceinline__ int digit_of(std::int32_t key, int shift) {
  return key >> shift & (kDigits - 1);
}

__global__ void __launch_bounds__(kDigits) count_digits_kernel(SortPass pass) {
  auto& tile = static_shared<Tile>();
  const int size = load_tile(tile, pass);
  const int mine = static_cast<int>(threadIdx.x);
  int count = 0;
  for (int i = 0; i < size; ++i) count += digit_of(tile.keys[i], pass.shift) == mine ? 1 : 0;
  pass.counts[mine * pass.tiles + static_cast<int>(blockIdx.x)] = count;
}

struct DigitTotals {
  std::int32_t at[kDigits];
};

// One block: counts become the places of the first row of each digit of each tile.
__global__ void __launch_bounds__(kDigits) place_digits_kernel(std::int32_t* counts, int tiles) {
  auto& totals = static_shared<DigitTotals>();
  const int mine = static_cast<int>(threadIdx.x);
  int total = 0;
  for (int tile = 0; tile < tiles; ++tile) total += counts[mine * tiles + tile];
  totals.at[mine] = total;
  __syncthreads();
  int place = 0;
  for (int digit = 0; digit < mine; ++digit) place += totals.at[digit];
  for (int tile = 0; tile < tiles; ++tile) {
    const int count = counts[mine * tiles + tile];
    counts[mine * tiles + tile] = place;
    place += count;
  }
}

// Each thread walks over the tile in order and moves the rows of its digit: stable.
__global__ void __launch_bounds__(kDigits) move_rows_kernel(SortPass pass) {
  auto& tile = static_shared<Tile>();
  const int size = load_tile(tile, pass);
  const int mine = static_cast<int>(threadIdx.x);
  int place = pass.counts[mine * pass.tiles + static_cast<int>(blockIdx.x)];
  for (int i = 0; i < size; ++i) {
    if (digit_of(tile.keys[i], pass.shift) != mine) continue;
    pass.sorted_keys[place] = tile.keys[i];
    pass.sorted_rows[place] = tile.rows[i];
    ++place;
  }
}

}  // namespace

RowOrder sort_rows(const std::int32_t* keys, std::int64_t rows, std::int64_t limit,
                   const Workspace& workspace, cudaStream_t stream) {
  const int tiles = static_cast<int>(blocks_for(rows, kTile));
  std::int32_t* buffer[2];
  for (int i = 0; i < 2; ++i) buffer[i] = scratch<std::int32_t>(workspace, 2 * i * rows, 2 * rows);
  std::int32_t* counts = scratch<std::int32_t>(workspace, 4 * rows, std::int64_t{kDigits} * tiles);
  SortPass pass{.keys = keys, .counts = counts, .count = rows, .tiles = tiles};
  int target = 0;
  do {
    pass.sorted_keys = buffer[target];
    pass.sorted_rows = buffer[target] + rows;
    launch<count_digits_kernel>(static_cast<unsigned>(tiles), kDigits, 0, stream, pass);
    launch<place_digits_kernel>(1, kDigits, 0, stream, counts, tiles);
    launch<move_rows_kernel>(static_cast<unsigned>(tiles), kDigits, 0, stream, pass);
    pass.keys = pass.sorted_keys;
    pass.rows = pass.sorted_rows;
    pass.shift += kDigitBits;
    target = 1 - target;
  } while ((limit - 1) >> pass.shift > 0);
  return {pass.keys, pass.rows};
}

}  // namespace flywheel::cuda
