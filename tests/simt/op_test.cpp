#include "cuda/cuda_backend.h"
#include "parity/op_case.h"
#include "simt/emulator/config.h"
#include "simt/schedules.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

void check_cases(const std::vector<OpCase>& cases) {
  const auto backend = make_cuda_backend(0);
  for (const OpCase& op_case : cases) {
    CAPTURE(op_case.name);
    const Comparison worst = compare(op_case, run_on(*backend, op_case));
    CAPTURE(worst.output, worst.error, worst.tolerance);
    CHECK(worst.passed());
  }
}

}  // namespace

TEST_CASE("every op on the emulated GPU is as exact as a naive float loop", "[simt]") {
  check_cases(all_op_cases());
}

TEST_CASE("every op in bf16 is as exact as a naive loop that rounds what it stores", "[simt]") {
  check_cases(bf16_op_cases());
}

TEST_CASE("every op gives the same bits under any schedule", "[simt]") {
  std::vector<OpCase> cases = all_op_cases();
  for (OpCase& op_case : bf16_op_cases()) cases.push_back(std::move(op_case));
  std::vector<Outputs> expected;
  const auto backend = make_cuda_backend(0);
  for (const OpCase& op_case : cases) expected.push_back(run_on(*backend, op_case));
  for (const Schedule& schedule : unruly_schedules(2)) {
    const ScheduleScope scope(schedule);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CAPTURE(schedule.name(), cases[i].name);
      REQUIRE(same_bits(expected[i], run_on(*backend, cases[i])));
    }
  }
}

TEST_CASE("the backend touches device memory only through the runtime", "[simt]") {
  simt::config.host_guard = true;  // a stray access of the host's would end the process
  simt::config.defer_streams = true;
  {
    const auto backend = make_cuda_backend(0);
    const std::vector<OpCase> cases = all_op_cases();
    for (std::size_t i = 0; i < cases.size(); i += 7) {  // guarding takes a system call an op
      CAPTURE(cases[i].name);
      CHECK(compare(cases[i], run_on(*backend, cases[i])).passed());
    }
  }
  simt::config = {};
}

TEST_CASE("the backend names a device that is not there and memory that is too small", "[simt]") {
  CHECK(contains(error_of([] { make_cuda_backend(99); }), "no CUDA device 99"));
  const auto backend = make_cuda_backend(0);
  CHECK(contains(error_of([&] { backend->allocate(std::int64_t{1} << 40, "weights"); }),
                 "device: weights: cannot get 1024.000 GiB of GPU memory"));
}
