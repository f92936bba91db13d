#include "cuda/device/check.h"

#include "core/error.h"

namespace flywheel::cuda {

void check(cudaError_t status, const char* what) {
  require(status == cudaSuccess, ErrorKind::Device, "CUDA: {}: {}", what,
          cudaGetErrorString(status));
}

}  // namespace flywheel::cuda
