#include "backend/communicator.h"

#include <algorithm>

namespace flywheel {

Part part_of(std::int64_t elements, std::int64_t rank, std::int64_t ranks) {
  constexpr std::int64_t kCacheLine = 16;
  const std::int64_t lines = (elements + kCacheLine - 1) / kCacheLine;
  const std::int64_t chunk = (lines + ranks - 1) / ranks * kCacheLine;
  const auto bound = [&](std::int64_t r) { return std::min(elements, r * chunk); };
  return {bound(rank), bound(rank + 1)};
}

void Communicator::all_reduce(const TensorView& x) {
  reduce_scatter(x);
  all_gather(x);
}

}  // namespace flywheel
