#pragma once

#include <filesystem>
#include <memory>

#include "backend/backend.h"

namespace flywheel {

// GPU `device` of this machine. Error Device if there is none, or if this build has no CUDA
// backend. `matmul_algorithms`: the file of measured algorithms (matmul_algorithms.h); empty:
// cuBLASLt chooses.
std::unique_ptr<Backend> make_cuda_backend(int device,
                                           const std::filesystem::path& matmul_algorithms = {});

// The peak of that GPU by its data sheet (peak_flops.h). 0: it is not in the table.
double cuda_peak_flops(int device, DType type);

}  // namespace flywheel
