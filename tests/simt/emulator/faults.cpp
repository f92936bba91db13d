#include "simt/emulator/faults.h"

#include <fmt/format.h>
#include <ucontext.h>

#include <cstring>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "simt/emulator/device.h"
#include "simt/emulator/stacks.h"

namespace simt {
namespace {

std::mutex error_mutex;
std::string first_error;

// A fault's place in memory, or what signal it was.
std::string describe_fault(int signal_number, char* address) {
  const Worker& w = *worker;
  const auto* byte = reinterpret_cast<unsigned char*>(address);
  if (byte >= w.arena - WorkerMemory::kPage && byte < w.arena_end + WorkerMemory::kPage) {
    return fmt::format("shared memory access out of bounds at byte offset {} (size {})",
                       byte - w.shared, w.shared_bytes);
  }
  const char* low = w.current->stack_low;
  if (address >= low - WorkerMemory::kPage && address < low) {
    return fmt::format("stack overflow (stack of {} bytes)", config.stack_bytes);
  }
  if (const std::string place = describe_device_address(address); !place.empty()) {
    return "device memory access out of bounds: " + place;
  }
  return fmt::format("{} at address {}", strsignal(signal_number), static_cast<void*>(address));
}

void leave_faulty_fiber() {
  abandon_block();
}

void on_fault(int signal_number, siginfo_t* info, void* context) {
  if (!worker || !worker->current || !worker->launch) {
    signal(signal_number, SIG_DFL);  // a fault of the host's own
    return;
  }
  report(describe_fault(signal_number, static_cast<char*>(info->si_addr)));
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RSP] = reinterpret_cast<greg_t>(worker_memory().emergency_stack() - 8);
  registers[REG_RIP] = reinterpret_cast<greg_t>(&leave_faulty_fiber);
}

}  // namespace

FaultHandlers::FaultHandlers() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

FaultHandlers::~FaultHandlers() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

std::string SourceLine::text() const {
  const char* slash = std::strrchr(file, '/');
  return fmt::format("{}:{}", slash ? slash + 1 : file, line);
}

std::string text_of(uint3 index) {
  return fmt::format("({},{},{})", index.x, index.y, index.z);
}

std::string text_of_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    if (!text.empty()) text += ",";
    text += std::to_string(numbers[i]);
    if (j > i) text += fmt::format("-{}", numbers[j]);
    i = j + 1;
  }
  return text;
}

void report(const std::string& message) {
  std::string where;
  if (worker && worker->launch) {
    where = fmt::format("kernel {}, block {}", worker->launch->kernel, text_of(blockIdx));
    if (worker->current) where += ", thread " + text_of(worker->current->thread);
    where += ": ";
    worker->launch->failed = true;
    worker->failed = true;
  }
  const std::lock_guard lock(error_mutex);
  if (first_error.empty()) first_error = where + message;
}

void abandon_block() {
  void* never_resumed = nullptr;
  simt_switch(&never_resumed, worker->scheduler_stack);
  __builtin_unreachable();
}

void fail(std::string message) {
  {
    const std::string owned = std::move(message);  // nothing may leak: this stack is abandoned
    report(owned);
  }
  if (!worker || !worker->current) throw std::runtime_error(peek_error());
  abandon_block();
}

std::string take_error() {
  const std::lock_guard lock(error_mutex);
  return std::exchange(first_error, {});
}

std::string peek_error() {
  const std::lock_guard lock(error_mutex);
  return first_error;
}

}  // namespace simt
