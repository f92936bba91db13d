// In place of the backend where there is no nvcc.
#include "core/error.h"
#include "cuda/cuda_backend.h"
#include "cuda/nccl_communicator.h"

namespace flywheel {
namespace {

[[noreturn]] void refuse() {
  fail(ErrorKind::Device,
       "this build has no CUDA backend; build where nvcc is (docs/cuda.md), or take the CPU");
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int /*device*/, const CudaOptions& /*options*/) {
  refuse();
}

std::unique_ptr<Communicator> make_nccl_communicator(Backend& /*backend*/,
                                                     std::unique_ptr<HostCommunicator> /*hosts*/,
                                                     std::chrono::milliseconds /*timeout*/) {
  refuse();
}

double cuda_peak_flops(int /*device*/, DType /*type*/) {
  refuse();
}

}  // namespace flywheel
