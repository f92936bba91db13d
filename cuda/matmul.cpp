#include "cuda/matmul.h"

#include <algorithm>

#include "core/error.h"

namespace flywheel::cuda {
namespace {

void check_blas(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, ErrorKind::Device, "cuBLASLt: {}: status {}", what,
          static_cast<int>(status));
}

cudaDataType_t type_of(const TensorView& view) {
  return view.dtype == DType::BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

// The largest power of two, at most 256, that divides the address.
std::uint32_t alignment_of(const TensorView& view) {
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & -address, 256));
}

// A row-major matrix is the column-major one of its transpose.
cublasLtMatrixLayout_t layout_of(const TensorView& view) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_blas(
      cublasLtMatrixLayoutCreate(&layout, type_of(view), static_cast<std::uint64_t>(view.shape[1]),
                                 static_cast<std::uint64_t>(view.shape[0]), view.stride(0)),
      "matrix layout");
  return layout;
}

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check_blas(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
             "matmul attribute");
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  check_blas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
             "matmul preference");
}

}  // namespace

// out^T = op(b)^T op(a)^T in cuBLASLt's column-major terms: its first operand is b.
struct MatmulPlans::Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    cublasLtMatmulDescDestroy(operation);
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(out);
  }

  void describe(const Matmul& args);
  void choose(cublasLtHandle_t handle, const Matmul& args, std::int64_t workspace_bytes);
};

void MatmulPlans::Plan::describe(const Matmul& args) {
  check_blas(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "matmul");
  const auto transposed = [](bool yes) { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transposed(args.transpose_b));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transposed(args.transpose_a));
  if (args.bias) set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  a = layout_of(args.a);
  b = layout_of(args.b);
  out = layout_of(args.out);
}

void MatmulPlans::Plan::choose(cublasLtHandle_t handle, const Matmul& args,
                               std::int64_t workspace_bytes) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(cublasLtMatmulPreferenceCreate(&preference), "matmul preference");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::size_t>(workspace_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(args.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(args.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(args.out));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(args.out));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, operation, b, a, out, out,
                                                               preference, 1, &found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  check_blas(status, "no algorithm for this product");
  require(count > 0, ErrorKind::Device, "cuBLASLt: no algorithm for a product of {} and {}",
          args.a.shape.to_string(), args.b.shape.to_string());
  algorithm = found.algo;
}

MatmulPlans::MatmulPlans() {
  check_blas(cublasLtCreate(&handle_), "start");
}

MatmulPlans::~MatmulPlans() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

MatmulPlans::Plan& MatmulPlans::plan_for(const Matmul& args, const Workspace& workspace) {
  const int flags = (args.transpose_a ? 1 : 0) | (args.transpose_b ? 2 : 0) |
                    (args.accumulate ? 4 : 0) | (args.bias ? 8 : 0) |
                    (args.a.dtype == DType::BF16 ? 16 : 0) |
                    (args.out.dtype == DType::BF16 ? 32 : 0);
  const std::int64_t depth = args.a.shape[args.transpose_a ? 0 : 1];
  const std::uint32_t alignments =
      alignment_of(args.a) | alignment_of(args.b) << 10 | alignment_of(args.out) << 20;
  const Key key{args.out.shape[0], args.out.shape[1],  depth, args.a.stride(0),
                args.b.stride(0),  args.out.stride(0), flags, alignments};
  const auto [entry, fresh] = plans_.try_emplace(key);
  if (fresh) {
    entry->second.describe(args);
    entry->second.choose(handle_, args, workspace.bytes);
  }
  return entry->second;
}

void MatmulPlans::run(const Matmul& args, const Workspace& workspace, cudaStream_t stream) {
  if (args.out.elements() == 0) return;
  Plan& plan = plan_for(args, workspace);
  if (args.bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        static_cast<const void*>(args.bias.data));
  }
  const float alpha = 1;
  const float beta = args.accumulate ? 1 : 0;
  check_blas(
      cublasLtMatmul(handle_, plan.operation, &alpha, args.b.data, plan.b, args.a.data, plan.a,
                     &beta, args.out.data, plan.out, args.out.data, plan.out, &plan.algorithm,
                     workspace.data, static_cast<std::size_t>(workspace.bytes), stream),
      "matmul");
}

}  // namespace flywheel::cuda
