#pragma once

#include <chrono>
#include <memory>

#include "backend/communicator.h"
#include "dist/launch.h"

namespace flywheel {

// The processes that a launcher started by environment variables, joined by TCP: all are linked to
// rank 0, which listens where MASTER_ADDR and MASTER_PORT say. Waits for all of them. A call, this
// one too, that takes longer than `timeout` fails and names the ranks that have not come to it.
std::unique_ptr<HostCommunicator> join_hosts(const Launch& launch,
                                             std::chrono::milliseconds timeout);

}  // namespace flywheel
