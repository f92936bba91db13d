#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "backend/op_args.h"
#include "cuda/device/blas.h"
#include "cuda/kernels/kernels.h"
#include "cuda/matmul_algorithms.h"

namespace flywheel::cuda {

// Matrix products by cuBLASLt: float32 accumulation, a plan for each shape made at its first use.
// Sums over K are split only by schemes that keep partial sums in float32. Inputs f32 or bf16, out
// either.
class MatmulPlans {
 public:
  // The algorithm of a shape is cuBLASLt's own choice or, with `algorithms`, what they say; for
  // shapes that they lack, the fastest of several that are measured at its first use.
  explicit MatmulPlans(std::optional<MatmulAlgorithms> algorithms = std::nullopt);
  ~MatmulPlans();
  MatmulPlans(const MatmulPlans&) = delete;
  MatmulPlans& operator=(const MatmulPlans&) = delete;

  void run(const Matmul& args, const Workspace& workspace, cudaStream_t stream);

 private:
  struct Plan;
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, int, std::uint32_t>;
  Plan& plan_for(const Matmul& args, const Workspace& workspace, cudaStream_t stream);
  void choose(Plan& plan, const Matmul& args, const Workspace& workspace, cudaStream_t stream);
  void multiply(const Plan& plan, const Matmul& args, void* out, const Workspace& workspace,
                cudaStream_t stream);
  double milliseconds(const Plan& plan, const Matmul& args, void* out, const Workspace& workspace,
                      cudaStream_t stream);
  void measure(Plan& plan, const Matmul& args, const Workspace& workspace, cudaStream_t stream);

  cublasLtHandle_t handle_ = nullptr;
  std::optional<MatmulAlgorithms> algorithms_;
  std::map<Key, Plan> plans_;
};

}  // namespace flywheel::cuda
