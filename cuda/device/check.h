#pragma once

#include "cuda/device/runtime.h"

namespace flywheel::cuda {

// Error Device unless the call of the runtime went well: "CUDA: WHAT: out of memory".
void check(cudaError_t status, const char* what);

}  // namespace flywheel::cuda
