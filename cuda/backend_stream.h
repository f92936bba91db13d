#pragma once

#include "backend/backend.h"
#include "cuda/memory.h"

namespace flywheel::cuda {

// The stream that the backend's ops run on; `backend` is one of make_cuda_backend.
Stream& stream_of(Backend& backend);

}  // namespace flywheel::cuda
