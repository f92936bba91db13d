// What check mode reports whatever the schedule: races with both lines, reads of what was never
// written, bank conflicts.
#include "simt/check/conflicts.h"
#include "simt/planted.h"
#include "simt/schedules.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel::test;

namespace {

using Kernel = Outcome (*)(Fault);

void check_race(Kernel kernel, Fault fault, const std::string& space) {
  for (const Schedule& schedule : unruly_schedules(1)) {
    const ScheduleScope scope(schedule);
    const Outcome outcome = kernel(fault);
    CAPTURE(schedule.name(), static_cast<int>(fault), outcome.report);
    CHECK(contains(outcome.report, "data race on " + space));
    const std::size_t first = outcome.report.find("it at planted.cu:");
    CHECK(first != std::string::npos);
    CHECK(outcome.report.find("it at planted.cu:", first + 1) != std::string::npos);
  }
}

// How many times the least, over the lines that access shared memory.
double worst_conflict() {
  double worst = 1;
  for (const simt::LineCost& line : simt::conflict_counter().take()) {
    if (!line.shared) continue;
    worst = std::max(worst, static_cast<double>(line.cost) / static_cast<double>(line.ideal));
  }
  return worst;
}

}  // namespace

TEST_CASE("check mode has nothing to say about kernels without a fault", "[simt]") {
  for (const Schedule& schedule : unruly_schedules(2)) {
    const ScheduleScope scope(schedule);
    for (const Kernel kernel : {block_sum, pipeline, product, warp_reverse, blocks, misuse}) {
      const Outcome outcome = kernel(Fault::kNone);
      CAPTURE(schedule.name(), outcome.report);
      CHECK(outcome.right);
      CHECK(outcome.report.empty());
    }
  }
}

TEST_CASE("check mode finds races in every schedule", "[simt]") {
  check_race(block_sum, Fault::kNoBarrier, "static shared memory");
  check_race(pipeline, Fault::kNoBarrierAtLoopEnd, "static shared memory");
  check_race(warp_reverse, Fault::kNoSyncwarp, "static shared memory");
  check_race(blocks, Fault::kBlocksRace, "device memory");
  check_race(blocks, Fault::kCountWithoutAtomic, "device memory");
}

TEST_CASE("check mode finds what is read too early", "[simt]") {
  for (const Schedule& schedule : unruly_schedules(1)) {
    const ScheduleScope scope(schedule);
    for (const Fault fault : {Fault::kNoBarrierAfterWait, Fault::kFillsLiveBuffer}) {
      const Outcome outcome = pipeline(fault);
      CAPTURE(schedule.name(), static_cast<int>(fault), outcome.report);
      CHECK(outcome.found());
      const bool wrong_only = fault == Fault::kFillsLiveBuffer && outcome.report.empty();
      CHECK((wrong_only || contains(outcome.report, "data race on static shared memory") ||
             contains(outcome.report, "that was never written")));
    }
  }
}

TEST_CASE("check mode finds what is out of bounds or was never written", "[simt]") {
  CHECK(contains(block_sum(Fault::kWritesPastShared).report,
                 "write of 4 bytes out of bounds of dynamic shared memory at byte offset 512 (size "
                 "512) at planted.cu:"));
  CHECK(contains(block_sum(Fault::kWritesPastOutput).report,
                 "write of 4 bytes out of bounds of device memory at byte offset 512"));
  const std::string unwritten = block_sum(Fault::kReadsUnwritten).report;
  CHECK(contains(unwritten, "reads dynamic shared memory at byte offset"));
  CHECK(contains(unwritten, "that was never written, at planted.cu:"));
  const ScheduleScope lazy({simt::Order::kRoundRobin, simt::Landing::kLazy});
  CHECK(contains(pipeline(Fault::kWaitsOneShort).report, "that was never written"));
}

TEST_CASE("check mode counts bank conflicts", "[simt]") {
  simt::config.count_conflicts = true;
  CHECK(transpose_tile(true).right);
  CHECK(worst_conflict() == 1);
  CHECK(transpose_tile(false).right);
  CHECK(worst_conflict() == 32);
  CHECK(product(Fault::kNone).right);
  CHECK(worst_conflict() <= 2);
  simt::config = {};
}
