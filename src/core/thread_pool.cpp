#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/error.h"

namespace flywheel {
namespace {

constexpr std::chrono::microseconds kSpinTime{50};

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins until ready() or until the spinning time is over.
template <class Ready>
bool spin(const Ready& ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

struct ThreadPool::Impl {
  std::vector<std::thread> workers;
  const std::function<void(int)>* task = nullptr;
  std::atomic<std::uint64_t> generation{0};
  std::atomic<int> running{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable start;
  std::condition_variable done;
  std::exception_ptr failure;

  void run_task(int thread) {
    try {
      (*task)(thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void work(int thread) {
    std::uint64_t seen = 0;
    while (true) {
      const auto ready = [&] { return generation.load(std::memory_order_acquire) != seen; };
      if (!spin(ready)) {
        std::unique_lock lock(mutex);
        start.wait(lock, ready);
      }
      ++seen;
      if (stopping.load(std::memory_order_acquire)) return;
      run_task(thread);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        const std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }

  void publish() {
    {
      const std::lock_guard lock(mutex);
      generation.fetch_add(1, std::memory_order_release);
    }
    start.notify_all();
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  require(threads >= 0, ErrorKind::Config, "threads is {}; expected 0 (all cores) or more",
          threads);
  const int count = threads == 0 ? available_cores() : threads;
  for (int thread = 1; thread < count; ++thread) {
    impl_->workers.emplace_back([impl = impl_.get(), thread] { impl->work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  impl_->stopping.store(true, std::memory_order_release);
  impl_->publish();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::size() const {
  return static_cast<int>(impl_->workers.size()) + 1;
}

void ThreadPool::run(const std::function<void(int)>& task) {
  Impl& impl = *impl_;
  impl.task = &task;
  impl.failure = nullptr;
  impl.running.store(size() - 1, std::memory_order_release);
  if (size() > 1) impl.publish();
  impl.run_task(0);
  const auto finished = [&] { return impl.running.load(std::memory_order_acquire) == 0; };
  if (!spin(finished)) {
    std::unique_lock lock(impl.mutex);
    impl.done.wait(lock, finished);
  }
  const std::lock_guard lock(impl.mutex);
  if (impl.failure) std::rethrow_exception(impl.failure);
}

void ThreadPool::for_range(std::int64_t count, std::int64_t grain,
                           const std::function<void(std::int64_t, std::int64_t, int)>& body) {
  if (count <= 0) return;
  const std::int64_t grains = (count + grain - 1) / grain;
  const std::int64_t parts = std::min<std::int64_t>(size(), grains);
  if (parts == 1) {
    body(0, count, 0);
    return;
  }
  run([&](int thread) {
    if (thread >= parts) return;
    const std::int64_t begin = grains * thread / parts * grain;
    const std::int64_t end = std::min(count, grains * (thread + 1) / parts * grain);
    if (begin < end) body(begin, end, thread);
  });
}

void ThreadPool::for_each(std::int64_t count, const std::function<void(std::int64_t, int)>& body) {
  if (count <= 0) return;
  if (size() == 1 || count == 1) {
    for (std::int64_t index = 0; index < count; ++index) body(index, 0);
    return;
  }
  std::atomic<std::int64_t> next{0};
  run([&](int thread) {
    while (true) {
      const std::int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      body(index, thread);
    }
  });
}

}  // namespace flywheel
