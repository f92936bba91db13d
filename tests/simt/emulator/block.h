#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simt/emulator/config.h"
#include "simt/emulator/types.h"

// Check mode compiles kernels with g++'s thread sanitizer pass, whose calls land in our own hooks
// (tests/simt/check). Code of the emulator that such a file inlines must not be instrumented.
#ifdef __SANITIZE_THREAD__
#define SIMT_UNCHECKED __attribute__((no_sanitize("thread"), noinline))
#else
#define SIMT_UNCHECKED
#endif

namespace simt {

constexpr int kWarpSize = 32;
constexpr int kMaxThreads = 1024;
constexpr int kBarriers = 16;

// Where a kernel calls the emulator; the default argument is the caller's line.
struct SourceLine {
  const char* file;
  int line;
  static constexpr SourceLine here(const char* file = __builtin_FILE(),
                                   int line = __builtin_LINE()) {
    return {file, line};
  }
  bool operator==(const SourceLine& other) const {
    return line == other.line && std::string_view(file) == other.file;
  }
  std::string text() const;  // "norm.cu:52"
};

// A cp.async that has not landed.
struct PendingCopy {
  void* to;
  const void* from;  // null: zeros
};

// One CUDA thread: a stack of its own, and what it waits for.
struct Fiber {
  enum class State : std::uint8_t { kFresh, kRunning, kWaiting, kReturned };

  void* stack_pointer = nullptr;
  char* stack_low = nullptr;
  char* stack_top = nullptr;
  uint3 thread{};
  int index = 0;  // within the block
  int warp = 0;
  int lane = 0;
  State state = State::kFresh;
  const char* waits_in = "";
  SourceLine waits_at{"", 0};
  std::uint32_t waits_for = 0;        // mask of lanes, or number of the barrier
  std::vector<PendingCopy> copies;    // oldest first
  std::vector<int> committed_groups;  // sizes, oldest first
  int open_group = 0;
};

// Lanes of a warp on their way into one collective; each hands in a record on its own stack.
struct Collective {
  std::uint32_t mask = 0;
  std::uint32_t arrived = 0;
  const char* name = "";
  SourceLine line{"", 0};
  std::array<void*, kWarpSize> records{};
};

struct Warp {
  std::uint32_t lanes = 0;  // that exist
  std::uint32_t returned = 0;
  std::uint32_t ready = 0;
  int open_collectives = 0;  // one for each mask that lanes wait with
  std::array<Collective, kWarpSize> collectives;
};

struct Barrier {
  int arrived = 0;
  int expected = 0;
  const char* name = "";
  SourceLine line{"", 0};
  std::array<std::uint32_t, kMaxThreads / kWarpSize> waiting{};
  int true_count = 0;  // of the predicates so far
  int last_true_count = 0;
  int last_expected = 0;
};

// A variable of a kernel's static shared memory in the running block.
struct StaticShared {
  const void* key;
  unsigned char* data;
  std::size_t bytes;
};

struct Launch {
  std::string_view kernel;
  void (*call)(void*) = nullptr;
  void* arguments = nullptr;
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t multiplier = 1;  // blocks run in the order (i * multiplier + offset) mod blocks
  std::uint64_t offset = 0;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> failed{false};
};

// A thread of the host that runs one block at a time. The fibers of a block never leave it.
struct Worker {
  void* scheduler_stack = nullptr;
  Fiber* current = nullptr;
  Launch* launch = nullptr;
  bool failed = false;
  int threads = 0;
  int warp_count = 0;
  int live = 0;
  int current_warp = 0;
  std::uint32_t ready_warps = 0;
  std::uint64_t random_state = 1;
  std::uint64_t switches = 0;
  std::vector<Fiber> fibers;
  std::array<Warp, kMaxThreads / kWarpSize> warps;
  std::array<std::uint8_t, kMaxThreads / kWarpSize> priority{};
  std::array<Barrier, kBarriers> barriers;
  unsigned char* arena = nullptr;  // all shared memory lies in here
  unsigned char* arena_end = nullptr;
  unsigned char* shared = nullptr;  // dynamic shared memory of this block
  std::size_t shared_bytes = 0;
  std::vector<StaticShared> statics;

  std::uint64_t random();
  void make_ready(int warp, std::uint32_t lanes);
  // Takes the next ready thread; null if there is none.
  Fiber* pick();
  // Blocks the current thread until another makes it ready.
  void suspend(const char* name, SourceLine line, std::uint32_t waits_for);
  // Random orders: lets others go first, now and then.
  void maybe_yield(const char* name, SourceLine line);
  void run(Fiber* next, void** save);
};
inline thread_local constinit Worker* worker = nullptr;

// Reports an error of the running thread, abandons the block and never returns.
[[noreturn]] void fail(std::string message);
// The first error since the last call, with kernel, block and thread; empty if there was none.
std::string take_error();
std::string peek_error();

// What check mode wants to know. Null in fast mode.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void launch_begins() = 0;
  virtual void block_begins(const Worker& worker) = 0;
  virtual void block_ends() = 0;
  virtual void released(const void* object) = 0;   // the thread's past joins what object gathers
  virtual void completed(const void* object) = 0;  // what it gathered is what its waiters acquire
  virtual void acquired(const void* object) = 0;
  virtual void warp_ordered(std::uint32_t mask) = 0;  // __syncwarp
  // An access that the emulator makes for the instruction at `pc`; may_happen: it can take place
  // from now on.
  virtual void accessed(const void* pc, const void* address, std::size_t bytes, bool write,
                        bool may_happen) = 0;
  // Copies, memsets and library calls fill device memory.
  virtual void filled(const void* address, std::size_t bytes) = 0;
};
inline Observer* observer = nullptr;

// bar.sync (wait) or bar.arrive; returns how many of the threads had a true predicate.
struct BarrierCall {
  int id = 0;
  int threads = 0;  // 0: all of the block
  bool wait = true;
  bool predicate = false;
  const char* name = "__syncthreads";
};
struct BarrierResult {
  int true_count;
  int threads;
};
BarrierResult barrier(const BarrierCall& call, SourceLine line);

// The current lane arrives with its record. `last` tells whether all of the mask are there.
Collective& arrive(std::uint32_t mask, const char* name, void* record, SourceLine line, bool& last);
void finish(Collective& collective);

// Warp collectives: the last lane of the mask to arrive runs combine(records by lane, mask) for
// all; then all go on.
template <class Record, class Combine>
SIMT_UNCHECKED void collective(std::uint32_t mask, const char* name, Record& record,
                               SourceLine line, Combine combine) {
  bool last = false;
  Collective& all = arrive(mask, name, &record, line, last);
  if (last) {
    combine(reinterpret_cast<Record**>(all.records.data()), mask);
    finish(all);
  } else {
    worker->suspend(name, line, mask);
  }
}

// Offset of shared memory; an error for any other address.
std::uint32_t shared_offset(const void* address);
void* static_shared(const void* key, std::size_t bytes, std::size_t alignment);
void check_red_zones(Worker& worker, bool at_switch);

void memory_fence();

// Whether this cp.async lands late.
bool draw_late_landing();

}  // namespace simt
