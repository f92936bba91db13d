// The table of cases on the GPU of this machine, where there is one.
#include <cstdio>

#include "core/error.h"
#include "cuda/cuda_backend.h"
#include "parity/op_case.h"
#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

TEST_CASE("every op on the GPU is as exact as a naive float loop and repeats its bits", "[gpu]") {
  std::unique_ptr<Backend> backend;
  try {
    backend = make_cuda_backend(0);
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return;
  }
  std::printf("%s\n", backend->description().c_str());
  for (const OpCase& op_case : all_op_cases()) {
    CAPTURE(op_case.name);
    const Outputs first = run_on(*backend, op_case);
    const Comparison worst = compare(op_case, first);
    CAPTURE(worst.output, worst.error, worst.tolerance);
    CHECK(worst.passed());
    CHECK(same_bits(first, run_on(*backend, op_case)));
  }
}
