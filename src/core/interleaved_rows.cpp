#include "core/interleaved_rows.h"

#include <algorithm>
#include <cstring>

namespace flywheel {

void interleave_rows(const std::byte* rows, std::int64_t columns, std::byte* out) {
  constexpr std::int64_t kBlockBytes = bytes_of(DType::Q8_0, kWeightBlock);
  constexpr std::int64_t kScaleBytes = kBlockBytes - kWeightBlock;
  constexpr std::uint32_t kSignBits = 0x80808080;
  using Four = std::uint32_t;  // kInterleavedColumns integers
  const std::int64_t blocks = columns / kWeightBlock;
  for (std::int64_t block = 0; block < blocks; ++block, out += kInterleavedBlockBytes) {
    for (std::int64_t row = 0; row < kInterleavedRows; ++row) {
      const std::byte* from = rows + (row * blocks + block) * kBlockBytes;
      std::copy_n(from, kScaleBytes, out + row * kScaleBytes);
      for (std::int64_t four = 0; four < kWeightBlock / kInterleavedColumns; ++four) {
        Four integers = 0;
        std::memcpy(&integers, from + kScaleBytes + four * kInterleavedColumns, sizeof(Four));
        integers ^= kSignBits;
        std::byte* to =
            out + kInterleavedScaleBytes + (four * kInterleavedRows + row) * kInterleavedColumns;
        std::memcpy(to, &integers, sizeof(Four));
      }
    }
  }
}

}  // namespace flywheel
