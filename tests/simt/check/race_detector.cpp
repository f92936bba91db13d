#include "simt/check/race_detector.h"

#include <fmt/format.h>

#include <utility>

#include "simt/check/conflicts.h"
#include "simt/check/source_lines.h"
#include "simt/emulator/device.h"
#include "simt/emulator/heap.h"
#include "simt/emulator/launch.h"

namespace simt {
namespace {

std::uint32_t linear_block() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

void join(std::vector<std::uint32_t>& into, const std::uint32_t* clock, std::size_t size) {
  into.resize(size, 0);
  for (std::size_t i = 0; i < size; ++i) into[i] = std::max(into[i], clock[i]);
}

[[noreturn]] void report_race(const RaceDetector::Access& now, const AccessRecord& other,
                              const char* other_did, bool across_blocks, const char* space,
                              std::size_t offset) {
  const std::string who = across_blocks
                              ? fmt::format("thread {} of block {}", other.thread, other.block)
                              : fmt::format("thread {}", other.thread);
  fail(fmt::format(
      "data race on {} byte {}: this thread {} it at {}, {} {} it at {}, and no barrier orders the "
      "two",
      space, offset, now.write ? "writes" : "reads", line_of(now.pc), who, other_did,
      line_of(other.pc)));
}

void require_within(const RaceDetector::Access& access, const char* space, std::ptrdiff_t offset,
                    std::size_t size) {
  if (offset >= 0 && static_cast<std::size_t>(offset) + access.bytes <= size) return;
  fail(fmt::format("{} of {} bytes out of bounds of {} at byte offset {} (size {}) at {}",
                   access.write ? "write" : "read", access.bytes, space, offset, size,
                   line_of(access.pc)));
}

[[noreturn]] void report_unwritten(const RaceDetector::Access& access, const char* space,
                                   std::size_t offset) {
  fail(fmt::format("reads {} at byte offset {} that was never written, at {}", space, offset,
                   line_of(access.pc)));
}

struct SharedObject {
  const unsigned char* data;
  std::size_t bytes;
  const char* name;
};
// The static variable at or next to the address, else dynamic shared memory.
SharedObject shared_object(const Worker& w, const unsigned char* address) {
  constexpr std::ptrdiff_t kZone = 64;
  for (const StaticShared& variable : w.statics) {
    const auto size = static_cast<std::ptrdiff_t>(variable.bytes);
    const std::ptrdiff_t offset = address - variable.data;
    if (offset >= -kZone / 2 && offset < size + kZone / 2) {
      return {variable.data, variable.bytes, "static shared memory"};
    }
  }
  return {w.shared, w.shared_bytes, "dynamic shared memory"};
}

void count_cost(const RaceDetector::Access& access, bool shared) {
  if (!config.count_conflicts || access.may_happen) return;
  conflict_counter().count({access.pc, worker->current->index,
                            reinterpret_cast<std::uint64_t>(access.address),
                            static_cast<std::uint32_t>(access.bytes), access.write, shared});
}

}  // namespace

std::uint32_t* RaceDetector::clock_of(int thread) {
  return clocks_.data() + static_cast<std::size_t>(thread) * threads_;
}

void RaceDetector::launch_begins() {
  ++launch_generation_;
  last_atomic_.clear();
}

void RaceDetector::block_begins(const Worker& w) {
  threads_ = static_cast<std::size_t>(w.threads);
  clocks_.assign(threads_ * threads_, 0);
  for (int i = 0; i < w.threads; ++i) clock_of(i)[i] = 1;
  objects_.clear();
  shared_.resize(static_cast<std::size_t>(w.arena_end - w.arena));
  ++block_generation_;
}

void RaceDetector::block_ends() {
  conflict_counter().end_block();
}

void RaceDetector::released(const void* object) {
  const int me = worker->current->index;
  join(objects_[object].gathering, clock_of(me), threads_);
  ++clock_of(me)[me];
}

void RaceDetector::completed(const void* object) {
  SyncObject& sync = objects_[object];
  sync.complete = std::exchange(sync.gathering, {});
}

void RaceDetector::acquired(const void* object) {
  std::uint32_t* clock = clock_of(worker->current->index);
  const SyncObject& sync = objects_[object];
  for (std::size_t i = 0; i < sync.complete.size(); ++i) {
    clock[i] = std::max(clock[i], sync.complete[i]);
  }
}

void RaceDetector::warp_ordered(std::uint32_t mask) {
  const int first = worker->current->warp * kWarpSize;
  std::vector<std::uint32_t> joined;
  for_lanes(mask, [&](int lane) { join(joined, clock_of(first + lane), threads_); });
  for_lanes(mask, [&](int lane) {
    std::copy(joined.begin(), joined.end(), clock_of(first + lane));
    ++clock_of(first + lane)[first + lane];
  });
}

void RaceDetector::accessed(const void* pc, const void* address, std::size_t bytes, bool write,
                            bool may_happen) {
  check({address, bytes, code_offset(pc), write, false, may_happen});
}

RaceDetector::DeviceChunk& RaceDetector::chunk_of(std::uintptr_t address) {
  std::unique_ptr<DeviceChunk>& chunk = device_[address / kChunk];
  if (!chunk) chunk = std::make_unique<DeviceChunk>();
  return *chunk;
}

void RaceDetector::filled(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (std::uintptr_t at = begin; at < begin + bytes;) {
    const std::uintptr_t end = std::min(begin + bytes, (at / kChunk + 1) * kChunk);
    DeviceChunk& chunk = chunk_of(at);
    for (; at < end; ++at) chunk.written.set(at % kChunk);
  }
}

bool RaceDetector::ordered(const AccessRecord& earlier, std::uint32_t block, int thread) const {
  if (earlier.clock == 0) return true;
  if (earlier.block == block) {
    const std::size_t mine = static_cast<std::size_t>(thread) * threads_;
    return earlier.thread == thread || clocks_[mine + earlier.thread] >= earlier.clock;
  }
  const auto theirs = last_atomic_.find(earlier.block);
  const auto ours = last_atomic_.find(block);
  return theirs != last_atomic_.end() && ours != last_atomic_.end() &&
         theirs->second > earlier.atomics && ours->second > earlier.atomics;
}

void RaceDetector::touch(ShadowCell& cell, std::uint32_t generation, std::uint32_t block,
                         const Access& access, const char* space, std::size_t offset) {
  if (cell.generation != generation) {
    cell = {};
    cell.generation = generation;
  }
  const int me = worker->current->index;
  const bool both_atomic = access.atomic && cell.write_was_atomic;
  if (!both_atomic && !ordered(cell.write, block, me)) {
    report_race(access, cell.write, "wrote", cell.write.block != block, space, offset);
  }
  const AccessRecord now{clock_of(me)[me], access.pc, block, atomics_,
                         static_cast<std::uint16_t>(me)};
  if (!access.write) {
    // Two readers that are not ordered are both kept.
    const AccessRecord& first = cell.reads[0];
    const bool second = first.clock != 0 && first.thread != me && !ordered(first, block, me);
    cell.reads[second ? 1 : 0] = now;
    return;
  }
  for (const AccessRecord& read : cell.reads) {
    if (!access.atomic && !ordered(read, block, me)) {
      report_race(access, read, "read", read.block != block, space, offset);
    }
  }
  if (access.may_happen) return;
  cell.write = now;
  cell.write_was_atomic = access.atomic;
  cell.reads = {};
}

void RaceDetector::check_shared(const Access& access) {
  const Worker& w = *worker;
  const auto* byte = static_cast<const unsigned char*>(access.address);
  const SharedObject object = shared_object(w, byte);
  require_within(access, object.name, byte - object.data, object.bytes);
  count_cost(access, true);
  for (std::size_t i = 0; i < access.bytes; ++i) {
    ShadowCell& cell = shared_[static_cast<std::size_t>(byte - w.arena) + i];
    const auto offset = static_cast<std::size_t>(byte - object.data) + i;
    const bool written = cell.generation == block_generation_ && cell.write.clock != 0;
    if (!access.write && !written) report_unwritten(access, object.name, offset);
    touch(cell, block_generation_, 0, access, object.name, offset);
  }
}

void RaceDetector::check_device(const Access& access) {
  const HeapBlock block = find_allocation(access.address);
  const auto address = reinterpret_cast<std::uintptr_t>(access.address);
  const auto offset =
      static_cast<std::ptrdiff_t>(address - reinterpret_cast<std::uintptr_t>(block.data));
  require_within(access, block.live ? "device memory" : "FREED device memory", offset,
                 block.live ? block.bytes : 0);
  count_cost(access, false);
  if (access.atomic) last_atomic_[linear_block()] = ++atomics_;
  for (std::uintptr_t at = address; at < address + access.bytes; ++at) {
    DeviceChunk& chunk = chunk_of(at);
    const auto place = static_cast<std::size_t>(offset) + (at - address);
    if (!access.write && !chunk.written[at % kChunk]) {
      report_unwritten(access, "device memory", place);
    }
    if (access.write && !access.may_happen) chunk.written.set(at % kChunk);
    if (at % 2 != 0 && at != address) continue;
    touch(chunk.cells[at % kChunk / 2], launch_generation_, linear_block(), access, "device memory",
          place);
  }
}

void RaceDetector::check(const Access& access) {
  const Worker* w = worker;
  if (!w || !w->current) return;
  const auto* byte = static_cast<const unsigned char*>(access.address);
  constexpr std::ptrdiff_t kPage = 4096;
  if (byte >= w->arena - kPage && byte < w->arena_end + kPage) {
    check_shared(access);
  } else if (is_device_address(access.address)) {
    check_device(access);
  }
}

RaceDetector& race_detector() {
  static RaceDetector detector;
  return detector;
}

}  // namespace simt
