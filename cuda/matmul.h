#pragma once

#include <map>
#include <tuple>

#include "backend/op_args.h"
#include "cuda/device/blas.h"
#include "cuda/kernels/kernels.h"

namespace flywheel::cuda {

// Matrix products by cuBLASLt: float32 accumulation, a plan for each shape made at its first use.
// Sums over K are split only by schemes that keep partial sums in float32. Inputs f32 or bf16, out
// either.
class MatmulPlans {
 public:
  MatmulPlans();
  ~MatmulPlans();
  MatmulPlans(const MatmulPlans&) = delete;
  MatmulPlans& operator=(const MatmulPlans&) = delete;

  void run(const Matmul& args, const Workspace& workspace, cudaStream_t stream);

 private:
  struct Plan;
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                         std::int64_t, int, std::uint32_t>;
  Plan& plan_for(const Matmul& args, const Workspace& workspace);

  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

}  // namespace flywheel::cuda
