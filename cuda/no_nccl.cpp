// In place of the communicator where there is no NCCL.
#include "core/error.h"
#include "cuda/nccl_communicator.h"

namespace flywheel {

std::unique_ptr<Communicator> make_nccl_communicator(Backend& /*backend*/,
                                                     std::unique_ptr<HostCommunicator> /*hosts*/,
                                                     std::chrono::milliseconds /*timeout*/) {
  fail(ErrorKind::Device,
       "several GPUs, but this build is without NCCL; build again where nccl.h is (docs/cuda.md)");
}

}  // namespace flywheel
