#pragma once

// cuBLASLt, or the emulator's plain loops behind the same calls.
#ifdef FLYWHEEL_SIMT
#include "simt/emulator/cublas_lt.h"
#else
#include <cublasLt.h>
#endif

namespace flywheel::cuda {

// cuBLASLt's functions. The library is loaded when they are first asked for: it is large, and runs
// on CPUs need none.
struct Blas {
  decltype(&cublasLtGetVersion) get_version;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create;
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute;
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set_attribute;
  decltype(&cublasLtMatmulAlgoGetHeuristic) algo_get_heuristic;
  decltype(&cublasLtMatmulAlgoCheck) algo_check;
  decltype(&cublasLtMatmul) matmul;
};

// Error Device if the library is not there.
const Blas& blas();

}  // namespace flywheel::cuda
