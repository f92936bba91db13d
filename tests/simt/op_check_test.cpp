#include "cuda/cuda_backend.h"
#include "parity/op_case.h"
#include "simt/check/conflicts.h"
#include "simt/emulator/config.h"
#include "simt/schedules.h"
#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases = all_op_cases();
  for (OpCase& op_case : bf16_op_cases()) cases.push_back(std::move(op_case));
  return cases;
}

}  // namespace

// Check mode is some ten times slower: every third case.
TEST_CASE("no op races, leaves its memory or reads what was never written", "[simt]") {
  const auto backend = make_cuda_backend(0);
  const std::vector<OpCase> cases = all_cases();
  std::uint64_t seed = 0;
  for (std::size_t i = 0; i < cases.size(); i += 3) {
    const ScheduleScope scope({simt::Order::kSkew, simt::Landing::kMixed, ++seed});
    CAPTURE(cases[i].name, seed);
    CHECK(compare(cases[i], run_on(*backend, cases[i])).passed());
  }
}

TEST_CASE("no op has bank conflicts", "[simt]") {
  simt::config.count_conflicts = true;
  const auto backend = make_cuda_backend(0);
  const std::vector<OpCase> cases = all_cases();
  for (std::size_t i = 0; i < cases.size(); i += 7) run_on(*backend, cases[i]);
  for (const simt::LineCost& line : simt::conflict_counter().take()) {
    if (!line.shared) continue;
    CAPTURE(line.line, line.requests, line.cost, line.ideal);
    CHECK(line.cost <= 2 * line.ideal);
  }
  simt::config = {};
}
