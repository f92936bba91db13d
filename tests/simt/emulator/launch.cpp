#include "simt/emulator/launch.h"

#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "simt/emulator/faults.h"
#include "simt/emulator/scheduler.h"
#include "simt/emulator/stacks.h"
#include "simt/emulator/streams.h"

namespace simt {
namespace {

// Runs blocks of the launch until none is left or one failed.
void run_share(Launch& launch) {
  WorkerMemory& memory = worker_memory();
  memory.provide(launch.block.count());
  worker = &memory.worker();
  while (!launch.failed) {
    const std::uint64_t i = launch.next.fetch_add(1);
    if (i >= launch.blocks) break;
    __extension__ using Wide = unsigned __int128;
    const auto scaled = static_cast<std::uint64_t>(Wide{i} * launch.multiplier % launch.blocks);
    run_block(*worker, launch, (scaled + launch.offset) % launch.blocks);
  }
  worker = nullptr;
}

// Threads that run blocks beside the caller's.
class Pool {
 public:
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    start_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(Launch& launch, int workers) {
    while (static_cast<int>(threads_.size()) < workers - 1) {
      const int id = static_cast<int>(threads_.size());
      threads_.emplace_back([this, id] { loop(id); });
    }
    {
      const std::lock_guard lock(mutex_);
      launch_ = &launch;
      ++generation_;
      wanted_ = busy_ = workers - 1;
    }
    start_.notify_all();
    run_share(launch);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
    wanted_ = 0;
  }

 private:
  void loop(int id) {
    std::uint64_t seen = 0;
    for (;;) {
      Launch* launch = nullptr;
      {
        std::unique_lock lock(mutex_);
        start_.wait(lock, [&] { return quit_ || (generation_ != seen && id < wanted_); });
        if (quit_) return;
        seen = generation_;
        launch = launch_;
      }
      run_share(*launch);
      const std::lock_guard lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> threads_;
  Launch* launch_ = nullptr;
  std::uint64_t generation_ = 0;
  int busy_ = 0;
  int wanted_ = 0;
  bool quit_ = false;
};

void permute_blocks(Launch& launch) {
  const std::uint64_t random = config.seed * 0x9e3779b97f4a7c15ULL + 12345;
  launch.offset = (random >> 20) % launch.blocks;
  launch.multiplier = (random >> 7) % launch.blocks | 1;
  while (std::gcd(launch.multiplier, launch.blocks) != 1) launch.multiplier += 2;
}

int workers_for(const Launch& launch) {
  if (observer) return 1;
  const int limit =
      config.workers > 0 ? config.workers : static_cast<int>(std::thread::hardware_concurrency());
  return static_cast<int>(
      std::min<std::uint64_t>(static_cast<std::uint64_t>(limit), launch.blocks));
}

}  // namespace

cudaError_t check_launch(const Launch& launch) {
  constexpr unsigned kMaxGridYZ = 65535;
  const std::uint64_t threads = launch.block.count();
  const bool valid = threads > 0 && threads <= kMaxThreads && launch.block.z <= 64 &&
                     launch.blocks > 0 && launch.grid.x <= 0x7fffffffU &&
                     launch.grid.y <= kMaxGridYZ && launch.grid.z <= kMaxGridYZ &&
                     launch.shared_bytes <= config.shared_limit;
  return valid ? cudaSuccess : cudaErrorInvalidConfiguration;
}

void run_launch(Launch& launch) {
  if (device_failed()) return;  // as on the GPU, where nothing runs after a fault
  if (observer) observer->launch_begins();
  const bool random = config.order == Order::kRandom || config.order == Order::kSkew;
  if (random && launch.blocks > 1) permute_blocks(launch);
  const FaultHandlers handlers;
  const int workers = workers_for(launch);
  if (workers <= 1) {
    run_share(launch);
  } else {
    static Pool pool;
    pool.run(launch, workers);
  }
  if (launch.failed) fail_device(cudaErrorLaunchFailure);
}

std::string_view kernel_name(const char* pretty_function) {
  std::string_view name(pretty_function);
  const std::size_t begin = name.find("kKernel = ");
  if (begin == std::string_view::npos) return name;
  name.remove_prefix(begin + 10);
  return name.substr(0, name.rfind(']'));
}

}  // namespace simt
