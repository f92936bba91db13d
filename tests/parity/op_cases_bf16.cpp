#include <algorithm>
#include <map>
#include <set>

#include "core/float16.h"
#include "parity/op_case.h"
#include "support/reference_ops.h"

namespace flywheel::test {
namespace {

// What stays f32 in an op on bf16 tensors.
const std::set<std::string> kFloat32{"rstd",
                                     "mean",
                                     "q_rstd",
                                     "k_rstd",
                                     "lse",
                                     "losses",
                                     "cos",
                                     "sin",
                                     "dbias",
                                     "dweight",
                                     "dtable",
                                     "dposition_table",
                                     "dq_norm_weight",
                                     "dk_norm_weight",
                                     "weights"};
// Ops that are about f32 only.
const std::set<std::string> kNotInBf16{"adamw_step", "sum", "sum_of_squares", "fill",
                                       "route_experts"};

double rounded(double x) {
  return static_cast<double>(bf16_to_float(float_to_bf16(static_cast<float>(x))));
}

std::string op_of(const OpCase& op_case) {
  return op_case.name.substr(0, op_case.name.find(' '));
}

bool becomes_bf16(const OpCase& op_case, const Operand& operand) {
  if (operand.dtype != DType::F32 || kFloat32.count(operand.name) > 0) return false;
  // Weight gradients accumulate in f32.
  const bool weight_gradient =
      op_of(op_case) == "matmul" && op_case.name.find("accumulate") != std::string::npos;
  return !(weight_gradient && operand.name == "out");
}

// The naive loop computes in float and rounds what it stores. The one op that reads what it stored
// rounds it there.
void round_outputs(const std::vector<Operand>& operands, Arrays<float>& t) {
  for (const Operand& operand : operands) {
    if (operand.role == Role::kInput || operand.dtype != DType::BF16) continue;
    for (float& x : t.at(operand.name).values) x = bf16_to_float(float_to_bf16(x));
  }
}

void add_then_norm(Arrays<float>& t) {
  const Array<float> x = t["x"];
  for (std::int64_t i = 0; i < x.shape.elements(); ++i) {
    t["x"](i) = bf16_to_float(float_to_bf16(t["x"](i) + t["residual"](i)));
  }
  t["sum"] = t["x"];
  reference::rms_norm_forward(t, 1e-5F);
  t["x"] = x;
}

OpCase in_bf16(OpCase op_case) {
  for (Operand& operand : op_case.operands) {
    if (!becomes_bf16(op_case, operand)) continue;
    operand.dtype = DType::BF16;
    for (double& x : operand.initial.values) x = rounded(x);
  }
  const auto in_float = op_of(op_case) == "add_rms_norm_forward"
                            ? std::function<void(Arrays<float>&)>(add_then_norm)
                            : op_case.naive;
  op_case.naive = [in_float, operands = op_case.operands](Arrays<float>& t) {
    in_float(t);
    round_outputs(operands, t);
  };
  op_case.name += " bf16";
  return op_case;
}

}  // namespace

std::vector<OpCase> bf16_op_cases() {
  std::vector<OpCase> cases;
  for (OpCase& op_case : all_op_cases()) {
    const bool composed = op_case.name.find("composed") != std::string::npos;
    if (composed || kNotInBf16.count(op_of(op_case)) > 0) continue;
    cases.push_back(in_bf16(std::move(op_case)));
  }
  return cases;
}

}  // namespace flywheel::test
