#pragma once

#include <cstddef>

#include "simt/emulator/block.h"

namespace simt {

// Saves the callee-saved registers and the stack pointer to *save and goes on with another stack.
extern "C" void simt_switch(void** save, void* to);

// What a thread of the host needs to run blocks: stacks with a guard page each, shared memory
// between guard pages, a stack for signals and one to leave a faulty fiber on.
class WorkerMemory {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kArena = 256 << 10;
  static constexpr std::size_t kSignalStack = 64 << 10;

  WorkerMemory();
  ~WorkerMemory();
  WorkerMemory(const WorkerMemory&) = delete;
  WorkerMemory& operator=(const WorkerMemory&) = delete;

  Worker& worker() { return worker_; }
  // Stacks for a block of so many threads.
  void provide(std::size_t threads);
  char* emergency_stack() const { return emergency_ + kSignalStack; }

 private:
  void release_stacks();

  Worker worker_;
  char* arena_mapping_;
  char* signal_stack_;
  char* emergency_;
  char* stacks_ = nullptr;
  std::size_t stack_count_ = 0;
  std::size_t stack_bytes_ = 0;
};

// That of this thread of the host.
WorkerMemory& worker_memory();

// The stack of a thread that has not run: it starts in entry().
void prepare_stack(Fiber& fiber, void (*entry)());

}  // namespace simt
