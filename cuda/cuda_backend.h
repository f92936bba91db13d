#pragma once

#include <memory>

#include "backend/backend.h"

namespace flywheel {

// GPU `device` of this machine. Error Device if there is none. Some ops of inference are not there
// yet: they throw Error Device (docs/cuda.md).
std::unique_ptr<Backend> make_cuda_backend(int device);

}  // namespace flywheel
