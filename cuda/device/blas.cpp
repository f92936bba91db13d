#include "cuda/device/blas.h"

#ifndef FLYWHEEL_SIMT
#include "cuda/device/shared_library.h"
#endif

namespace flywheel::cuda {
namespace {

#ifdef FLYWHEEL_SIMT

Blas load() {
  return {cublasLtGetVersion,
          cublasLtCreate,
          cublasLtDestroy,
          cublasLtMatmulDescCreate,
          cublasLtMatmulDescDestroy,
          cublasLtMatmulDescSetAttribute,
          cublasLtMatrixLayoutCreate,
          cublasLtMatrixLayoutDestroy,
          cublasLtMatmulPreferenceCreate,
          cublasLtMatmulPreferenceDestroy,
          cublasLtMatmulPreferenceSetAttribute,
          cublasLtMatmulAlgoGetHeuristic,
          cublasLtMatmulAlgoCheck,
          cublasLtMatmul};
}

#else

#define FLYWHEEL_TEXT(x) #x
#define FLYWHEEL_LIBRARY(major) "libcublasLt.so." FLYWHEEL_TEXT(major)

Blas load() {
  const SharedLibrary library(FLYWHEEL_LIBRARY(CUBLAS_VER_MAJOR), "a GPU's products need cuBLASLt",
                              "this build's");
  Blas all{};
  library.find("cublasLtGetVersion", all.get_version);
  library.find("cublasLtCreate", all.create);
  library.find("cublasLtDestroy", all.destroy);
  library.find("cublasLtMatmulDescCreate", all.matmul_desc_create);
  library.find("cublasLtMatmulDescDestroy", all.matmul_desc_destroy);
  library.find("cublasLtMatmulDescSetAttribute", all.matmul_desc_set_attribute);
  library.find("cublasLtMatrixLayoutCreate", all.matrix_layout_create);
  library.find("cublasLtMatrixLayoutDestroy", all.matrix_layout_destroy);
  library.find("cublasLtMatmulPreferenceCreate", all.preference_create);
  library.find("cublasLtMatmulPreferenceDestroy", all.preference_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", all.preference_set_attribute);
  library.find("cublasLtMatmulAlgoGetHeuristic", all.algo_get_heuristic);
  library.find("cublasLtMatmulAlgoCheck", all.algo_check);
  library.find("cublasLtMatmul", all.matmul);
  return all;
}

#endif

}  // namespace

const Blas& blas() {
  static const Blas all = load();
  return all;
}

}  // namespace flywheel::cuda
