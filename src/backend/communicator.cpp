#include "backend/communicator.h"

#include <fmt/ranges.h>

#include "core/error.h"

namespace flywheel {

Part part_of(std::int64_t elements, std::int64_t rank, std::int64_t ranks) {
  constexpr std::int64_t kCacheLine = 16;
  const std::int64_t equal = elements / kCacheLine / ranks * kCacheLine;
  return {rank * equal, rank + 1 == ranks ? elements : (rank + 1) * equal};
}

void HostCommunicator::give_up(const std::string& what) {
  const std::vector<std::int64_t> missing = find_missing();
  fail(ErrorKind::Comm, "rank {}: {} for rank{}; resume from the last checkpoint", rank(), what,
       missing.empty() ? "s that came too late" : fmt::format(" {}", fmt::join(missing, " ")));
}

void Communicator::all_reduce(const TensorView& x) {
  reduce_scatter(x);
  all_gather(x);
}

}  // namespace flywheel
