#include "simt/emulator/stacks.h"

#include <signal.h>
#include <sys/mman.h>

#include <new>

asm(R"(
.text
.globl simt_switch
.type simt_switch,@function
simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch,.-simt_switch
)");

namespace simt {
namespace {

char* map_pages(std::size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(pages);
}

}  // namespace

WorkerMemory::WorkerMemory()
    : arena_mapping_(map_pages(kArena + 2 * kPage)),
      signal_stack_(map_pages(kSignalStack)),
      emergency_(map_pages(kSignalStack)) {
  stack_t stack{};
  stack.ss_sp = signal_stack_;
  stack.ss_size = kSignalStack;
  sigaltstack(&stack, nullptr);
  mprotect(arena_mapping_, kPage, PROT_NONE);
  mprotect(arena_mapping_ + kPage + kArena, kPage, PROT_NONE);
  worker_.arena = reinterpret_cast<unsigned char*>(arena_mapping_ + kPage);
  worker_.arena_end = worker_.arena + kArena;
}

WorkerMemory::~WorkerMemory() {
  stack_t off{};
  off.ss_flags = SS_DISABLE;
  sigaltstack(&off, nullptr);
  release_stacks();
  munmap(arena_mapping_, kArena + 2 * kPage);
  munmap(signal_stack_, kSignalStack);
  munmap(emergency_, kSignalStack);
}

void WorkerMemory::release_stacks() {
  if (stacks_) munmap(stacks_, stack_count_ * (stack_bytes_ + kPage));
}

void WorkerMemory::provide(std::size_t threads) {
  if (stack_count_ >= threads && stack_bytes_ == config.stack_bytes) return;
  release_stacks();
  stack_count_ = threads;
  stack_bytes_ = config.stack_bytes;
  const std::size_t pitch = stack_bytes_ + kPage;
  stacks_ = map_pages(threads * pitch);
  worker_.fibers.resize(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    mprotect(stacks_ + i * pitch, kPage, PROT_NONE);
    Fiber& fiber = worker_.fibers[i];
    fiber.stack_low = stacks_ + i * pitch + kPage;
    // Staggered: at equal offsets within a page, all stacks would share the same few cache sets.
    fiber.stack_top = fiber.stack_low + stack_bytes_ - i * 5 % 64 * 64;
  }
}

WorkerMemory& worker_memory() {
  static thread_local WorkerMemory memory;
  return memory;
}

void prepare_stack(Fiber& fiber, void (*entry)()) {
  constexpr int kSavedRegisters = 6;
  void** slot = reinterpret_cast<void**>(fiber.stack_top) - 2;  // keeps the entry aligned
  slot[0] = reinterpret_cast<void*>(entry);
  fiber.stack_pointer = slot - kSavedRegisters;
}

}  // namespace simt
