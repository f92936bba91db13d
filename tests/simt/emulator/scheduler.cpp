#include "simt/emulator/scheduler.h"

#include <fmt/format.h>

#include <map>

#include "simt/emulator/device.h"
#include "simt/emulator/faults.h"
#include "simt/emulator/intrinsics.h"
#include "simt/emulator/stacks.h"

namespace simt {
namespace {

constexpr unsigned char kRedZone = 0xfd;

// The first set bit above `after`, else the first of all.
int next_bit(std::uint32_t mask, int after) {
  const std::uint32_t higher = after >= 31 ? 0 : mask & (~0U << (after + 1));
  return std::countr_zero(higher != 0 ? higher : mask);
}
int highest_bit(std::uint32_t mask) {
  return 31 - std::countl_zero(mask);
}

bool is_random(Order order) {
  return order == Order::kRandom || order == Order::kSkew;
}

// kSkew: the ready warp of highest priority; now and then it drops to the lowest.
int pick_skewed_warp(Worker& w, std::uint64_t random) {
  int best = -1;
  for_lanes(w.ready_warps, [&](int warp) {
    const auto at = static_cast<std::size_t>(warp);
    if (best < 0 || w.priority[at] > w.priority[static_cast<std::size_t>(best)]) best = warp;
  });
  if ((random >> 40 & 1023) == 0) {
    std::uint8_t& mine = w.priority[static_cast<std::size_t>(best)];
    for (std::uint8_t& other : w.priority) {
      if (other < mine) ++other;
    }
    mine = 0;
  }
  return best;
}

struct Choice {
  int warp, lane;
};

Choice choose(Worker& w) {
  const auto ready = [&](int warp) { return w.warps[static_cast<std::size_t>(warp)].ready; };
  const bool current_ready = (w.ready_warps >> w.current_warp & 1U) != 0;
  if (config.order == Order::kRoundRobin) {
    const int warp = current_ready ? w.current_warp : next_bit(w.ready_warps, w.current_warp);
    const bool same = w.current && w.current->warp == warp;
    return {warp, next_bit(ready(warp), same ? w.current->lane : 31)};
  }
  if (config.order == Order::kReverse) {
    const int warp = current_ready ? w.current_warp : highest_bit(w.ready_warps);
    return {warp, highest_bit(ready(warp))};
  }
  const std::uint64_t random = w.random();
  const int warp = config.order == Order::kRandom
                       ? next_bit(w.ready_warps, static_cast<int>(random & 31))
                       : pick_skewed_warp(w, random);
  return {warp, next_bit(ready(warp), static_cast<int>(random >> 8 & 31))};
}

void check_before_return(const Fiber& fiber) {
  const Warp& warp = worker->warps[static_cast<std::size_t>(fiber.warp)];
  for (int i = 0; i < warp.open_collectives; ++i) {
    const Collective& open = warp.collectives[static_cast<std::size_t>(i)];
    if ((open.mask >> fiber.lane & 1U) == 0) continue;
    fail(fmt::format(
        "returns from the kernel while lanes {:08x} of its warp wait for it in {} at {}",
        open.arrived, open.name, open.line.text()));
  }
  const Barrier& all = worker->barriers[0];
  if (all.arrived > 0) {
    fail(fmt::format("returns from the kernel while {} threads of the block wait in {} at {}",
                     all.arrived, all.name, all.line.text()));
  }
}

// Copies that the kernel never waited for land at its end, as on the GPU.
void leave_kernel() {
  Fiber& fiber = *worker->current;
  wait_for_copies(0);
  check_red_zones(*worker, true);
  check_before_return(fiber);
  fiber.state = Fiber::State::kReturned;
  worker->warps[static_cast<std::size_t>(fiber.warp)].returned |= 1U << fiber.lane;
  if (--worker->live == 0) abandon_block();
  Fiber* next = worker->pick();
  if (!next) abandon_block();
  worker->run(next, &fiber.stack_pointer);
}

void fiber_main() {
  worker->launch->call(worker->launch->arguments);
  leave_kernel();
  __builtin_unreachable();
}

std::string description_of_wait(const Fiber& fiber) {
  if (fiber.state == Fiber::State::kReturned) return "have returned";
  const bool barrier = std::string_view(fiber.waits_in).find("sync") != std::string_view::npos &&
                       fiber.waits_for < kBarriers;
  return barrier ? fmt::format("wait in {} (barrier {}) at {}", fiber.waits_in, fiber.waits_for,
                               fiber.waits_at.text())
                 : fmt::format("wait in {} (lanes {:08x}) at {}", fiber.waits_in, fiber.waits_for,
                               fiber.waits_at.text());
}

void report_deadlock(Worker& w) {
  std::map<std::string, std::vector<int>> groups;
  for (int i = 0; i < w.threads; ++i) {
    groups[description_of_wait(w.fibers[static_cast<std::size_t>(i)])].push_back(i);
  }
  std::string message = "deadlock: no thread of the block can go on";
  for (const auto& [what, threads] : groups) {
    message += fmt::format("; threads {} {}", text_of_ranges(threads), what);
  }
  w.current = nullptr;
  report(message);
}

void start_warps(Worker& w) {
  w.ready_warps = 0;
  for (int i = 0; i < w.warp_count; ++i) {
    Warp& warp = w.warps[static_cast<std::size_t>(i)];
    const int lanes = std::min(kWarpSize, w.threads - i * kWarpSize);
    warp.lanes = lanes == kWarpSize ? ~0U : (1U << lanes) - 1;
    warp.returned = 0;
    warp.ready = 0;
    warp.open_collectives = 0;
    w.make_ready(i, warp.lanes);
    w.priority[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
  }
  if (is_random(config.order)) {
    for (std::size_t i = static_cast<std::size_t>(w.warp_count); i > 1; --i) {
      std::swap(w.priority[i - 1], w.priority[w.random() % i]);
    }
  }
  w.current_warp = config.order == Order::kReverse ? w.warp_count - 1 : 0;
}

void start_fibers(Worker& w, dim3 block) {
  for (int i = 0; i < w.threads; ++i) {
    Fiber& fiber = w.fibers[static_cast<std::size_t>(i)];
    const auto linear = static_cast<unsigned>(i);
    fiber.thread = {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
    fiber.index = i;
    fiber.warp = i / kWarpSize;
    fiber.lane = i % kWarpSize;
    fiber.state = Fiber::State::kFresh;
    fiber.copies.clear();
    fiber.committed_groups.clear();
    fiber.open_group = 0;
    prepare_stack(fiber, fiber_main);
  }
}

// Dynamic shared memory ends at the guard page, but for its rounding up to 1 KiB.
void start_shared_memory(Worker& w, std::size_t bytes) {
  constexpr std::size_t kRounding = 1024;
  w.shared = w.arena_end - (bytes + kRounding - 1) / kRounding * kRounding;
  w.shared_bytes = bytes;
  w.statics.clear();
  std::memset(w.shared, 0xff, bytes);  // NaN
  std::memset(w.shared + bytes, kRedZone,
              static_cast<std::size_t>(w.arena_end - (w.shared + bytes)));
  std::memset(w.shared - 64, kRedZone, 64);
}

}  // namespace

std::uint64_t Worker::random() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

void Worker::make_ready(int warp, std::uint32_t lanes) {
  if (lanes == 0) return;
  warps[static_cast<std::size_t>(warp)].ready |= lanes;
  ready_warps |= 1U << warp;
}

Fiber* Worker::pick() {
  if (ready_warps == 0) return nullptr;
  const Choice choice = choose(*this);
  current_warp = choice.warp;
  Warp& warp = warps[static_cast<std::size_t>(choice.warp)];
  warp.ready &= ~(1U << choice.lane);
  if (warp.ready == 0) ready_warps &= ~(1U << choice.warp);
  return &fibers[static_cast<std::size_t>(choice.warp * kWarpSize + choice.lane)];
}

void Worker::run(Fiber* next, void** save) {
  current = next;
  threadIdx = next->thread;
  next->state = Fiber::State::kRunning;
  ++switches;
  simt_switch(save, next->stack_pointer);
}

void Worker::suspend(const char* name, SourceLine line, std::uint32_t waits_for) {
  Fiber& me = *current;
  me.waits_in = name;
  me.waits_at = line;
  me.waits_for = waits_for;
  me.state = Fiber::State::kWaiting;
  check_red_zones(*this, true);
  Fiber* next = pick();
  if (!next) abandon_block();
  if (next == &me) {
    me.state = Fiber::State::kRunning;
  } else {
    run(next, &me.stack_pointer);
  }
}

void Worker::maybe_yield(const char* name, SourceLine line) {
  if (!is_random(config.order) || (random() >> 33 & 1) == 0) return;
  make_ready(current->warp, 1U << current->lane);
  suspend(name, line, 0);
}

bool draw_late_landing() {
  if (config.landing == Landing::kMixed) return (worker->random() >> 20 & 1) != 0;
  return config.landing == Landing::kLazy;
}

void run_block(Worker& w, Launch& launch, std::uint64_t index) {
  blockIdx = {static_cast<unsigned>(index % launch.grid.x),
              static_cast<unsigned>(index / launch.grid.x % launch.grid.y),
              static_cast<unsigned>(index / launch.grid.x / launch.grid.y)};
  blockDim = launch.block;
  gridDim = launch.grid;
  w.launch = &launch;
  w.failed = false;
  w.current = nullptr;
  w.random_state = (config.seed * 0x9e3779b97f4a7c15ULL ^ (index + 1) * 0xbf58476d1ce4e5b9ULL) | 1;
  for (int i = 0; i < 4; ++i) w.random();
  w.threads = static_cast<int>(launch.block.count());
  w.warp_count = (w.threads + kWarpSize - 1) / kWarpSize;
  w.live = w.threads;
  w.barriers = {};
  start_warps(w);
  start_fibers(w, launch.block);
  start_shared_memory(w, launch.shared_bytes);
  if (observer) observer->block_begins(w);
  w.run(w.pick(), &w.scheduler_stack);
  if (w.live > 0 && !w.failed) report_deadlock(w);
  if (observer) observer->block_ends();
  w.current = nullptr;
  if (!w.failed) check_red_zones(w, false);
  w.launch = nullptr;
}

}  // namespace simt
