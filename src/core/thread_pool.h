#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace flywheel {

// A fixed team of threads, the caller's among them. Workers spin for some tens of microseconds
// after a task and then sleep. One caller at a time; tasks must not call the pool again. An
// exception in a task is rethrown in the caller after all threads are done.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // 0: one for every core this process may use
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  // task(thread) once on every thread of the team, thread in [0, size()).
  void run(const std::function<void(int)>& task);

  // body(begin, end, thread) over a static partition of [0, count); every boundary but the last is
  // a multiple of `grain`. Parts depend on size(), so a body whose results depend on its boundaries
  // is a fault: results must be the same at any number of threads.
  void for_range(std::int64_t count, std::int64_t grain,
                 const std::function<void(std::int64_t, std::int64_t, int)>& body);

  // body(index, thread) for each index in [0, count), handed out one by one as threads get free.
  void for_each(std::int64_t count, const std::function<void(std::int64_t, int)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The cores that this process may use (its affinity mask).
int available_cores();

}  // namespace flywheel
