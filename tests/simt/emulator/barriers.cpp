#include <fmt/format.h>

#include <utility>

#include "simt/emulator/block.h"
#include "simt/emulator/faults.h"

namespace simt {
namespace {

std::vector<int> returned_threads(const Worker& w) {
  std::vector<int> returned;
  for (int i = 0; i < w.threads; ++i) {
    if (w.fibers[static_cast<std::size_t>(i)].state == Fiber::State::kReturned) {
      returned.push_back(i);
    }
  }
  return returned;
}

// All threads of the block must reach the same barrier at the same line of the source.
void check_barrier(const Barrier& barrier, const BarrierCall& call, int expected, bool whole,
                   SourceLine line) {
  if (whole && worker->live < worker->threads) {
    fail(fmt::format(
        "reaches {} at {}, but threads {} of the block have already returned from the kernel",
        call.name, line.text(), text_of_ranges(returned_threads(*worker))));
  }
  if (barrier.arrived == 0) return;
  if (whole && !(barrier.line == line)) {
    fail(fmt::format("divergent barrier: reaches {} at {} while {} other threads wait in {} at {}",
                     call.name, line.text(), barrier.arrived, barrier.name, barrier.line.text()));
  }
  if (barrier.expected != expected) {
    fail(fmt::format("barrier {}: {} threads expected at {}, {} at {}", call.id, expected,
                     line.text(), barrier.expected, barrier.line.text()));
  }
}

void open_barrier(Worker& w, Barrier& barrier) {
  barrier.last_true_count = barrier.true_count;
  barrier.last_expected = barrier.expected;
  barrier.arrived = 0;
  if (observer) observer->completed(&barrier);
  for (int i = 0; i < w.warp_count; ++i) {
    w.make_ready(i, std::exchange(barrier.waiting[static_cast<std::size_t>(i)], 0));
  }
}

void check_mask(const Warp& warp, const Fiber& fiber, std::uint32_t mask, const char* name,
                SourceLine line) {
  const char* fault = nullptr;
  if ((mask >> fiber.lane & 1U) == 0) fault = "does not name the calling lane";
  if ((mask & ~warp.lanes) != 0) fault = "names lanes beyond the block's size";
  if ((mask & warp.returned) != 0) fault = "names lanes that have returned from the kernel";
  if (fault) {
    fail(fmt::format("{} at {}: mask {:08x} {} (lane {})", name, line.text(), mask, fault,
                     fiber.lane));
  }
}

}  // namespace

void memory_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

BarrierResult barrier(const BarrierCall& call, SourceLine line) {
  Worker& w = *worker;
  Barrier& barrier = w.barriers[static_cast<std::size_t>(call.id)];
  const int expected = call.threads == 0 ? w.threads : call.threads;
  check_barrier(barrier, call, expected, call.id == 0, line);
  if (barrier.arrived == 0) {
    barrier.expected = expected;
    barrier.name = call.name;
    barrier.line = line;
    barrier.true_count = 0;
  }
  if (observer) observer->released(&barrier);
  barrier.true_count += call.predicate ? 1 : 0;
  if (++barrier.arrived == expected) {
    open_barrier(w, barrier);
    check_red_zones(w, true);
    w.maybe_yield(call.name, line);
  } else if (call.wait) {
    barrier.waiting[static_cast<std::size_t>(w.current->warp)] |= 1U << w.current->lane;
    w.suspend(call.name, line, static_cast<std::uint32_t>(call.id));
  } else {
    return {0, 0};
  }
  if (observer) observer->acquired(&barrier);
  return {barrier.last_true_count, barrier.last_expected};
}

Collective& arrive(std::uint32_t mask, const char* name, void* record, SourceLine line,
                   bool& last) {
  const Fiber& fiber = *worker->current;
  Warp& warp = worker->warps[static_cast<std::size_t>(fiber.warp)];
  check_mask(warp, fiber, mask, name, line);
  int i = 0;
  while (i < warp.open_collectives && warp.collectives[static_cast<std::size_t>(i)].mask != mask) {
    ++i;
  }
  Collective& open = warp.collectives[static_cast<std::size_t>(i)];
  if (i == warp.open_collectives) {
    ++warp.open_collectives;
    open.mask = mask;
    open.arrived = 0;
    open.name = name;
    open.line = line;
  } else if (!(open.line == line) || std::string_view(open.name) != name) {
    fail(fmt::format("divergent warp: lane {} reaches {} at {} while lanes {:08x} wait in {} at {}",
                     fiber.lane, name, line.text(), open.arrived, open.name, open.line.text()));
  }
  open.records[static_cast<std::size_t>(fiber.lane)] = record;
  open.arrived |= 1U << fiber.lane;
  last = open.arrived == mask;
  return open;
}

void finish(Collective& collective) {
  Worker& w = *worker;
  const Fiber& fiber = *w.current;
  Warp& warp = w.warps[static_cast<std::size_t>(fiber.warp)];
  w.make_ready(fiber.warp, collective.mask & ~(1U << fiber.lane));
  const char* name = collective.name;
  const SourceLine line = collective.line;
  Collective& youngest = warp.collectives[static_cast<std::size_t>(warp.open_collectives - 1)];
  if (&collective != &youngest) collective = youngest;
  --warp.open_collectives;
  w.maybe_yield(name, line);
}

}  // namespace simt
