#pragma once

#include <chrono>
#include <memory>

#include "backend/backend.h"
#include "backend/communicator.h"

namespace flywheel {

// The ranks of `hosts` by NCCL: a process each, with one GPU. Their collectives run on a stream of
// their own beside the backend's, which outlives this. `backend` is of make_cuda_backend. A
// collective that takes longer than `timeout` after this rank came to it, or that fails, is
// aborted: then the host's next wait for the backend, or call of this, is an Error Comm that names
// rank, device and call. Error Device in a build without NCCL, or where its library is missing.
std::unique_ptr<Communicator> make_nccl_communicator(Backend& backend,
                                                     std::unique_ptr<HostCommunicator> hosts,
                                                     std::chrono::milliseconds timeout);

}  // namespace flywheel
