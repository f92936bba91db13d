#include "cuda/device/blas.h"

#include "cuda/device/shared_library.h"

namespace flywheel::cuda {
namespace {

#define FLYWHEEL_TEXT(x) #x
#define FLYWHEEL_LIBRARY(major) "libcublasLt.so." FLYWHEEL_TEXT(major)

Blas load() {
#ifndef FLYWHEEL_SIMT
  const SharedLibrary library(FLYWHEEL_LIBRARY(CUBLAS_VER_MAJOR), "a GPU's products need cuBLASLt",
                              "this build's");
#endif
  Blas all{};
  FLYWHEEL_FIND(library, cublasLtGetVersion, all.get_version);
  FLYWHEEL_FIND(library, cublasLtCreate, all.create);
  FLYWHEEL_FIND(library, cublasLtDestroy, all.destroy);
  FLYWHEEL_FIND(library, cublasLtMatmulDescCreate, all.matmul_desc_create);
  FLYWHEEL_FIND(library, cublasLtMatmulDescDestroy, all.matmul_desc_destroy);
  FLYWHEEL_FIND(library, cublasLtMatmulDescSetAttribute, all.matmul_desc_set_attribute);
  FLYWHEEL_FIND(library, cublasLtMatrixLayoutCreate, all.matrix_layout_create);
  FLYWHEEL_FIND(library, cublasLtMatrixLayoutDestroy, all.matrix_layout_destroy);
  FLYWHEEL_FIND(library, cublasLtMatmulPreferenceCreate, all.preference_create);
  FLYWHEEL_FIND(library, cublasLtMatmulPreferenceDestroy, all.preference_destroy);
  FLYWHEEL_FIND(library, cublasLtMatmulPreferenceSetAttribute, all.preference_set_attribute);
  FLYWHEEL_FIND(library, cublasLtMatmulAlgoGetHeuristic, all.algo_get_heuristic);
  FLYWHEEL_FIND(library, cublasLtMatmulAlgoCheck, all.algo_check);
  FLYWHEEL_FIND(library, cublasLtMatmul, all.matmul);
  return all;
}

}  // namespace

const Blas& blas() {
  static const Blas all = load();
  return all;
}

}  // namespace flywheel::cuda
