#include "cpu/rows.h"

#include <algorithm>

#include "core/error.h"

namespace flywheel::cpu {

void check_indices(const char* what, const TensorView& indices, std::int64_t limit,
                   std::int32_t lowest) {
  const std::int32_t* index = indices.i32();
  for (std::int64_t i = 0; i < indices.elements(); ++i) {
    require(lowest <= index[i] && index[i] < limit, ErrorKind::Shape,
            "{}[{}] is {}; expected {} to {}", what, i, index[i], lowest, limit - 1);
  }
}

std::int64_t row_grain(std::int64_t columns) {
  return std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, columns));
}

void sum_over_row_blocks(std::int64_t rows, std::int64_t columns,
                         std::initializer_list<float*> destinations,
                         const std::function<void(std::int64_t, std::int64_t, float*)>& body,
                         ThreadPool& pool, const Workspace& workspace) {
  if (rows == 0) return;
  constexpr std::int64_t kMaxBlocks = 64;
  constexpr std::int64_t kMinRows = 16;
  const std::int64_t width = static_cast<std::int64_t>(destinations.size()) * columns;
  const std::int64_t capacity = Workspace::kSharedFloats / width;
  require(capacity > 0, ErrorKind::Shape, "a row of {} columns is too long to be summed", columns);
  const std::int64_t most_blocks = std::min(kMaxBlocks, capacity);
  const std::int64_t block_rows = std::max(kMinRows, (rows + most_blocks - 1) / most_blocks);
  const std::int64_t blocks = (rows + block_rows - 1) / block_rows;
  float* partials = workspace.shared();

  pool.for_each(blocks, [&](std::int64_t block, int) {
    float* partial = partials + block * width;
    std::fill_n(partial, width, 0.0F);
    body(block * block_rows, std::min(rows, (block + 1) * block_rows), partial);
  });
  pool.for_range(columns, 1024, [&](std::int64_t begin, std::int64_t end, int) {
    float* sum = partials;
    for (float* destination : destinations) {
      for (std::int64_t block = 1; block < blocks; ++block) {
        const float* other = sum + block * width;
        for (std::int64_t c = begin; c < end; ++c) sum[c] += other[c];
      }
      for (std::int64_t c = begin; c < end; ++c) destination[c] += sum[c];
      sum += columns;
    }
  });
}

}  // namespace flywheel::cpu
