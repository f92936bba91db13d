#pragma once

#include <memory>

#include "backend/backend.h"

namespace flywheel {

// GPU `device` of this machine. Error Device if there is none, or if this build has no CUDA
// backend.
std::unique_ptr<Backend> make_cuda_backend(int device);

// The peak of that GPU by its data sheet (peak_flops.h). 0: it is not in the table.
double cuda_peak_flops(int device, DType type);

}  // namespace flywheel
