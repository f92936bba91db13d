#pragma once

#include <string>

namespace flywheel::test {

// Small kernels, each right without a fault and wrong with one that fits it.
enum class Fault {
  kNone,
  // block_sum
  kNoBarrier,         // between writing and reading the partial sums
  kIndexPastArray,    // of static shared memory
  kReturnsEarly,      // one warp, before the barrier
  kDivergentBarrier,  // half of the warps at another line
  kWritesPastOutput,  // of device memory
  kWritesPastShared,  // of dynamic shared memory, by a pointer
  kReadsUnwritten,    // shared memory
  // pipeline
  kWaitsOneShort,       // for all but two groups of copies instead of one
  kNoBarrierAfterWait,  // others read what has not landed
  kNoBarrierAtLoopEnd,  // the buffer is refilled under the readers
  kFillsLiveBuffer,     // prefetches into the buffer that is read
  // product
  kSwapsFragments,  // two registers of a fragment
  kNotTransposed,   // ldmatrix without .trans
  // warp_reverse
  kNoSyncwarp,   // between a lane's write and another lane's read
  kLaneMissing,  // in a shuffle of all lanes
  // blocks
  kBlocksRace,          // two blocks write one element
  kCountWithoutAtomic,  // the last block adds up, chosen by its number
  // misuse
  kNamedBarrierDeadlock,
  kHostPointer,
  kNullPointer,
  kFreedPointer,
  kMisaligned,
  kShiftTooFar,
  kStackOverflow,
};

struct Outcome {
  bool right = false;  // the result
  std::string report;  // of the emulator; empty if it saw nothing
  bool found() const { return !right || !report.empty(); }
};

Outcome block_sum(Fault fault);
Outcome pipeline(Fault fault);
Outcome product(Fault fault);
Outcome warp_reverse(Fault fault);
Outcome blocks(Fault fault);
Outcome misuse(Fault fault);
// A 32x32 tile turned round through shared memory, with rows of 32 or of 33 elements.
Outcome transpose_tile(bool padded);

}  // namespace flywheel::test
