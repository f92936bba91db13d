#pragma once

#include <chrono>
#include <memory>

#include "backend/communicator.h"

namespace flywheel {

// The ranks that mpirun started, with tensors in the memory of the host. One may live in a process,
// used by the thread that made it. A call that takes longer than `timeout` fails and names the
// ranks that have not come to it. Error Config in a build without MPI.
std::unique_ptr<Communicator> make_mpi_communicator(std::chrono::milliseconds timeout);

}  // namespace flywheel
