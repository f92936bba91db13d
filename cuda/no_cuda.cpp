// In place of the backend where there is no nvcc.
#include "core/error.h"
#include "cuda/cuda_backend.h"

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

double cuda_peak_flops(int /*device*/, DType /*type*/) {
  refuse();
}

}  // namespace flywheel
