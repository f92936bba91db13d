#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "parity/op_case.h"

namespace flywheel::test {

// Whether the CUDA backend has this op and output yet.
inline bool on_cuda(const OpCase& op_case) {
  constexpr std::array<std::string_view, 5> kMissing{
      "attention_decode", "combine_experts", "grouped_matmul", "kv_cache_write", "route_experts"};
  const bool missing = std::any_of(kMissing.begin(), kMissing.end(), [&](std::string_view op) {
    return op_case.name.starts_with(op);
  });
  return !missing &&
         std::none_of(op_case.operands.begin(), op_case.operands.end(),
                      [](const Operand& operand) { return operand.name == "most_likely"; });
}

inline std::vector<OpCase> cuda_op_cases() {
  std::vector<OpCase> cases = all_op_cases();
  std::erase_if(cases, [](const OpCase& op_case) { return !on_cuda(op_case); });
  return cases;
}

}  // namespace flywheel::test
