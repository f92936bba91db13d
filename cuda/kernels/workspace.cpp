#include "core/error.h"
#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {

void check_scratch(const Workspace& workspace, std::int64_t bytes) {
  require(
      bytes <= workspace.bytes, ErrorKind::Shape,
      "the CUDA backend has {} bytes of scratch memory; this op needs {}: make the batch smaller",
      workspace.bytes, bytes);
}

}  // namespace flywheel::cuda
