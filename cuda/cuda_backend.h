#pragma once

#include <filesystem>
#include <memory>

#include "backend/backend.h"

namespace flywheel {

struct CudaOptions {
  // The file of measured algorithms (matmul_algorithms.h); empty: cuBLASLt chooses.
  std::filesystem::path matmul_algorithms;
  bool graphs = false;  // queue passes as CUDA graphs
};

// GPU `device` of this machine. Error Device if there is none, or if this build has no CUDA
// backend.
std::unique_ptr<Backend> make_cuda_backend(int device, const CudaOptions& options = {});

// The peak of that GPU by its data sheet (peak_flops.h). 0: it is not in the table.
double cuda_peak_flops(int device, DType type);

}  // namespace flywheel
