#pragma once

#include <cstdint>
#include <functional>

#include "backend/communicator.h"

namespace flywheel::test {

// Runs body(communicator) in a thread of its own for each rank, and rethrows what the lowest rank
// threw. The ranks add in their order.
void run_local_ranks(std::int64_t ranks, const std::function<void(Communicator&)>& body);

}  // namespace flywheel::test
