#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "simt/emulator/block.h"

namespace simt {

// Who accessed a cell last, as a time of its own clock.
struct AccessRecord {
  std::uint32_t clock = 0;  // 0: nobody
  std::uint32_t pc = 0;
  std::uint32_t block = 0;
  std::uint32_t atomics = 0;  // of the launch so far
  std::uint16_t thread = 0;
};

// One byte of shared memory, or two of device memory.
struct ShadowCell {
  std::uint32_t generation = 0;  // the block (shared) or launch (device) that the rest is about
  AccessRecord write;
  bool write_was_atomic = false;
  std::array<AccessRecord, 2> reads;
};

// Finds accesses that no barrier orders, whether or not this schedule shows it: vector clocks of
// all threads of a block, after Flanagan and Freund 2009 (FastTrack). __syncthreads, named barriers
// and __syncwarp order; shuffles, votes and mma do not. Atomics of two blocks order what lies
// before the one and after the other. Also finds accesses out of bounds and reads of what was never
// written. All errors end the kernel.
class RaceDetector final : public Observer {
 public:
  void launch_begins() override;
  void block_begins(const Worker& worker) override;
  void block_ends() override;
  void released(const void* object) override;
  void completed(const void* object) override;
  void acquired(const void* object) override;
  void warp_ordered(std::uint32_t mask) override;
  void accessed(const void* pc, const void* address, std::size_t bytes, bool write,
                bool may_happen) override;
  void filled(const void* address, std::size_t bytes) override;

  // An access of instrumented code.
  struct Access {
    const void* address;
    std::size_t bytes;
    std::uint32_t pc;
    bool write;
    bool atomic;
    bool may_happen = false;
  };
  void check(const Access& access);

 private:
  static constexpr std::size_t kChunk = 4096;
  struct DeviceChunk {
    std::array<ShadowCell, kChunk / 2> cells;
    std::bitset<kChunk> written;
  };
  struct SyncObject {
    std::vector<std::uint32_t> gathering, complete;
  };

  void check_shared(const Access& access);
  void check_device(const Access& access);
  void touch(ShadowCell& cell, std::uint32_t generation, std::uint32_t block, const Access& access,
             const char* space, std::size_t offset);
  bool ordered(const AccessRecord& earlier, std::uint32_t block, int thread) const;
  DeviceChunk& chunk_of(std::uintptr_t address);
  std::uint32_t* clock_of(int thread);

  std::size_t threads_ = 0;
  std::vector<std::uint32_t> clocks_;  // [threads, threads]
  std::unordered_map<const void*, SyncObject> objects_;
  std::vector<ShadowCell> shared_;
  std::unordered_map<std::uintptr_t, std::unique_ptr<DeviceChunk>> device_;
  std::uint32_t block_generation_ = 0;
  std::uint32_t launch_generation_ = 0;
  std::uint32_t atomics_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> last_atomic_;  // by block
};

RaceDetector& race_detector();

}  // namespace simt
