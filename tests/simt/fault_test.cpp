// What the emulator reports without check mode. Each planted fault must show, each kernel must be
// right without one.
#include "simt/planted.h"
#include "simt/schedules.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel::test;

namespace {

using Kernel = Outcome (*)(Fault);

std::string report_of(Kernel kernel, Fault fault) {
  const Outcome outcome = kernel(fault);
  return outcome.report.empty() ? "nothing was reported" : outcome.report;
}

// In how many of the schedules the fault shows, by a report or by a wrong result.
int shown(Kernel kernel, Fault fault) {
  int count = 0;
  for (const Schedule& schedule : unruly_schedules(5)) {
    const ScheduleScope scope(schedule);
    count += kernel(fault).found() ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("kernels without a fault are right under every schedule", "[simt]") {
  for (const Schedule& schedule : unruly_schedules(10)) {
    const ScheduleScope scope(schedule);
    CAPTURE(schedule.name());
    for (const Kernel kernel : {block_sum, pipeline, product, warp_reverse, blocks, misuse}) {
      const Outcome outcome = kernel(Fault::kNone);
      CAPTURE(outcome.report);
      CHECK(outcome.right);
      CHECK(outcome.report.empty());
    }
    CHECK(transpose_tile(false).right);
  }
}

TEST_CASE("a fault of synchronisation shows in some schedule", "[simt]") {
  CHECK(shown(block_sum, Fault::kNoBarrier) > 0);
  CHECK(shown(pipeline, Fault::kWaitsOneShort) > 0);
  CHECK(shown(pipeline, Fault::kNoBarrierAfterWait) > 0);
  CHECK(shown(pipeline, Fault::kNoBarrierAtLoopEnd) > 0);
  CHECK(shown(pipeline, Fault::kFillsLiveBuffer) > 0);
}

TEST_CASE("a wrong fragment gives a wrong product", "[simt]") {
  CHECK_FALSE(product(Fault::kSwapsFragments).right);
  CHECK_FALSE(product(Fault::kNotTransposed).right);
}

TEST_CASE("divergence is reported at once, with kernel, block and thread", "[simt]") {
  const std::string early = report_of(block_sum, Fault::kReturnsEarly);
  CAPTURE(early);
  CHECK(contains(early, "block_sum_kernel"));
  CHECK(contains(early, "block (0,0,0), thread ("));
  CHECK(contains(early, "): returns from the kernel while"));
  CHECK(contains(early, "threads of the block wait in __syncthreads at planted.cu:"));
  CHECK(contains(report_of(block_sum, Fault::kDivergentBarrier), "divergent barrier: reaches"));
  CHECK(contains(report_of(warp_reverse, Fault::kLaneMissing), "divergent warp: lane 7 reaches"));
  const std::string deadlock = report_of(misuse, Fault::kNamedBarrierDeadlock);
  CAPTURE(deadlock);
  CHECK(contains(deadlock, "deadlock: no thread of the block can go on"));
  CHECK(contains(deadlock, "threads 0-39,41-63 wait in bar_sync (barrier 1)"));
  CHECK(contains(deadlock, "threads 40 wait in __syncthreads (barrier 0)"));
}

TEST_CASE("accesses out of bounds are reported", "[simt]") {
  CHECK(contains(report_of(block_sum, Fault::kIndexPastArray), "index 4 is out of bounds for"));
  CHECK(contains(report_of(block_sum, Fault::kWritesPastOutput),
                 "byte 512 of an allocation of 512 bytes"));
  CHECK(contains(report_of(block_sum, Fault::kWritesPastShared),
                 "dynamic shared memory written out of bounds at byte offset 512 (size 512)"));
  CHECK(contains(report_of(misuse, Fault::kFreedPointer), "of a FREED allocation"));
  CHECK(contains(report_of(misuse, Fault::kNullPointer), "at address 0x0"));
  CHECK(contains(report_of(misuse, Fault::kHostPointer), "argument 0 of kernel"));
  CHECK(contains(report_of(misuse, Fault::kStackOverflow), "stack overflow"));
}

TEST_CASE("undefined behaviour is reported", "[simt]") {
  CHECK(contains(report_of(misuse, Fault::kMisaligned), "misaligned access"));
  CHECK(contains(report_of(misuse, Fault::kShiftTooFar), "thread (12,0,0): shift of 'int' by 32"));
  CHECK_FALSE(block_sum(Fault::kReadsUnwritten).right);  // it was poisoned
}
