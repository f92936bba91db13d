#pragma once

#include <algorithm>
#include <cstdint>

// The instructions of AMX. A tile holds kTileRows rows of kTileRowBytes; there are eight. Written
// as assembly since no Highway target has them; call only if use_amx().
namespace flywheel::cpu::amx {

constexpr int kTileRows = 16;
constexpr int kTileRowBytes = 64;
constexpr int kTileRowFloats = kTileRowBytes / 4;
constexpr int kTiles = 8;

// What LDTILECFG reads.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// Lets this thread use its tiles, all of them whole.
class TileSession {
 public:
  TileSession() {
    TileShapes shapes;
    std::fill_n(shapes.rows, kTiles, kTileRows);
    std::fill_n(shapes.row_bytes, kTiles, kTileRowBytes);
    asm volatile("ldtilecfg %0" ::"m"(shapes) : "memory");
  }
  ~TileSession() { asm volatile("tilerelease" ::: "memory"); }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;
};

template <int kTile>
inline void zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}

// `stride` is the distance of two rows in bytes.
template <int kTile>
inline void load(const void* from, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
}

template <int kTile>
inline void store(void* to, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
}

// sums[i][j] += x[i][2k] y[k][2j] + x[i][2k + 1] y[k][2j + 1] for all k: bf16 to f32.
template <int kSums, int kX, int kY>
inline void dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kX), "i"(kY));
}

}  // namespace flywheel::cpu::amx
