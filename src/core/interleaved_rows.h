#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace flywheel {

// DType::Q8_0x16: a group of 16 rows of Q8_0, block by block. A block has the 16 scales (F16) of
// its rows and then its 32 columns in fours: four integers of row 0, of row 1, ... of row 15. They
// are kept plus 128, without a sign, as products of int8 on CPUs want one of their factors.
inline constexpr std::int64_t kInterleavedRows = 16;
inline constexpr std::int64_t kInterleavedColumns = 4;  // of a row that lie together
inline constexpr std::int64_t kInterleavedScaleBytes = 2 * kInterleavedRows;
inline constexpr std::int64_t kInterleavedBlockBytes =
    bytes_of(DType::Q8_0, kWeightBlock) * kInterleavedRows;

// Sixteen rows of Q8_0, `columns` elements each, one after the other, as Q8_0x16.
void interleave_rows(const std::byte* rows, std::int64_t columns, std::byte* out);

}  // namespace flywheel
