#include "cuda/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "cuda/device/check.h"
#include "cuda/memory.h"

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
      blas().matrix_layout_create(&layout, type_of(view), static_cast<std::uint64_t>(view.shape[1]),
                                  static_cast<std::uint64_t>(view.shape[0]), view.stride(0)),
      "matrix layout");
  return layout;
}

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check_blas(blas().matmul_desc_set_attribute(operation, attribute, &value, sizeof(value)),
             "matmul attribute");
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  check_blas(blas().preference_set_attribute(preference, attribute, &value, sizeof(value)),
             "matmul preference");
}

std::int64_t depth_of(const Matmul& args) {
  return args.a.shape[args.transpose_a ? 0 : 1];
}

// "bf16 to f32, add, 8192x3072x1024 nt, strides 1024 1024 3072, aligned 256 256 256"
std::string name_of(const Matmul& args) {
  return fmt::format("{} to {}{}, {}x{}x{} {}{}{}, strides {} {} {}, aligned {} {} {}",
                     flywheel::name_of(args.a.dtype), flywheel::name_of(args.out.dtype),
                     args.accumulate ? ", add" : "", args.out.shape[0], args.out.shape[1],
                     depth_of(args), args.transpose_a ? 't' : 'n', args.transpose_b ? 't' : 'n',
                     args.bias ? " bias" : "", args.a.stride(0), args.b.stride(0),
                     args.out.stride(0), alignment_of(args.a), alignment_of(args.b),
                     alignment_of(args.out));
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
    blas().matmul_desc_destroy(operation);
    blas().matrix_layout_destroy(a);
    blas().matrix_layout_destroy(b);
    blas().matrix_layout_destroy(out);
  }

  void describe(const Matmul& args);
  // cuBLASLt's own choice, then those that it holds to be slower: at most `count`.
  std::vector<cublasLtMatmulAlgo_t> candidates(cublasLtHandle_t handle, const Matmul& args,
                                               std::int64_t workspace_bytes, int count) const;
  bool is_valid(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& candidate,
                std::int64_t workspace_bytes) const;
};

void MatmulPlans::Plan::describe(const Matmul& args) {
  check_blas(blas().matmul_desc_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "matmul");
  const auto transposed = [](bool yes) { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transposed(args.transpose_b));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transposed(args.transpose_a));
  if (args.bias) set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  a = layout_of(args.a);
  b = layout_of(args.b);
  out = layout_of(args.out);
}

std::vector<cublasLtMatmulAlgo_t> MatmulPlans::Plan::candidates(cublasLtHandle_t handle,
                                                                const Matmul& args,
                                                                std::int64_t workspace_bytes,
                                                                int count) const {
  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(blas().preference_create(&preference), "matmul preference");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
      static_cast<std::size_t>(workspace_bytes));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(args.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(args.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(args.out));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(args.out));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(count));
  const cublasStatus_t status = blas().algo_get_heuristic(handle, operation, b, a, out, out,
                                                          preference, count, found.data(), &count);
  blas().preference_destroy(preference);
  check_blas(status, "no algorithm for this product");
  require(count > 0, ErrorKind::Device, "cuBLASLt: no algorithm for a product of {} and {}",
          args.a.shape.to_string(), args.b.shape.to_string());
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) algorithms.push_back(found[static_cast<std::size_t>(i)].algo);
  return algorithms;
}

bool MatmulPlans::Plan::is_valid(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& candidate,
                                 std::int64_t workspace_bytes) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      blas().algo_check(handle, operation, b, a, out, out, &candidate, &result);
  return status == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<std::size_t>(workspace_bytes);
}

MatmulPlans::MatmulPlans(std::optional<MatmulAlgorithms> algorithms)
    : algorithms_(std::move(algorithms)) {
  check_blas(blas().create(&handle_), "start");
}

MatmulPlans::~MatmulPlans() {
  plans_.clear();
  blas().destroy(handle_);
}

MatmulPlans::Plan& MatmulPlans::plan_for(const Matmul& args, const Workspace& workspace,
                                         cudaStream_t stream) {
  const int flags = (args.transpose_a ? 1 : 0) | (args.transpose_b ? 2 : 0) |
                    (args.accumulate ? 4 : 0) | (args.bias ? 8 : 0) |
                    (args.a.dtype == DType::BF16 ? 16 : 0) |
                    (args.out.dtype == DType::BF16 ? 32 : 0);
  const std::uint32_t alignments =
      alignment_of(args.a) | alignment_of(args.b) << 10 | alignment_of(args.out) << 20;
  const Key key{args.out.shape[0], args.out.shape[1],  depth_of(args), args.a.stride(0),
                args.b.stride(0),  args.out.stride(0), flags,          alignments};
  const auto [entry, fresh] = plans_.try_emplace(key);
  if (fresh) {
    entry->second.describe(args);
    choose(entry->second, args, workspace, stream);
  }
  return entry->second;
}

void MatmulPlans::choose(Plan& plan, const Matmul& args, const Workspace& workspace,
                         cudaStream_t stream) {
  if (!algorithms_) {
    plan.algorithm = plan.candidates(handle_, args, workspace.bytes, 1)[0];
    return;
  }
  const auto stored = algorithms_->find(name_of(args));
  if (stored && plan.is_valid(handle_, *stored, workspace.bytes)) {
    plan.algorithm = *stored;
  } else {
    measure(plan, args, workspace, stream);
  }
}

// The fastest of some candidates. Where the product adds to what is there, memory of its own takes
// the results.
void MatmulPlans::measure(Plan& plan, const Matmul& args, const Workspace& workspace,
                          cudaStream_t stream) {
  constexpr int kCandidates = 16;
  std::unique_ptr<Memory> other;
  if (args.accumulate) {
    const std::int64_t elements = args.out.stride(0) * args.out.shape[0];
    other = std::make_unique<Memory>(elements * size_of(args.out.dtype), "a product to measure");
  }
  void* out = other ? other->data() : args.out.data;
  std::optional<double> least;
  cublasLtMatmulAlgo_t fastest{};
  for (const auto& candidate : plan.candidates(handle_, args, workspace.bytes, kCandidates)) {
    plan.algorithm = candidate;
    const double time = milliseconds(plan, args, out, workspace, stream);
    if (least && time >= *least) continue;
    least = time;
    fastest = candidate;
  }
  plan.algorithm = fastest;
  algorithms_->add(name_of(args), fastest, *least * 1000);
}

// Of one product, the least of several after one that warms up.
double MatmulPlans::milliseconds(const Plan& plan, const Matmul& args, void* out,
                                 const Workspace& workspace, cudaStream_t stream) {
  constexpr int kTimes = 5;
  double least = 0;
  for (int i = 0; i <= kTimes; ++i) {
    const Event begin(Event::Kind::Timed);
    const Event end(Event::Kind::Timed);
    begin.record(stream);
    multiply(plan, args, out, workspace, stream);
    end.record(stream);
    const double time = end.milliseconds_since(begin);
    if (i == 1 || (i > 1 && time < least)) least = time;
  }
  return least;
}

void MatmulPlans::run(const Matmul& args, const Workspace& workspace, cudaStream_t stream) {
  if (args.out.elements() == 0) return;
  multiply(plan_for(args, workspace, stream), args, args.out.data, workspace, stream);
}

void MatmulPlans::multiply(const Plan& plan, const Matmul& args, void* out,
                           const Workspace& workspace, cudaStream_t stream) {
  if (args.bias) {
    set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        static_cast<const void*>(args.bias.data));
  }
  const float alpha = 1;
  const float beta = args.accumulate ? 1 : 0;
  check_blas(blas().matmul(handle_, plan.operation, &alpha, args.b.data, plan.b, args.a.data,
                           plan.a, &beta, out, plan.out, out, plan.out, &plan.algorithm,
                           workspace.data, static_cast<std::size_t>(workspace.bytes), stream),
             "matmul");
}

}  // namespace flywheel::cuda
