#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

#include "core/thread_pool.h"

namespace flywheel {

// take -> work -> write on several threads. Items are taken one at a time, worked on at once, and
// written one at a time in the order in which they were taken, so that the result does not depend
// on the number of threads. At most one item a thread is held. The first exception in that order
// ends the run and is rethrown; what was taken before it has been written.
template <class Input, class Output>
class OrderedPipeline {
 public:
  std::function<bool(Input&)> take;    // false at the end
  std::function<Output(Input&)> work;  // several at once
  std::function<void(Output&)> write;

  void run(ThreadPool& pool) {
    pool.run([this](int) {
      Item item;
      while (next(item)) {
        if (!item.failure) attempt(item, [&] { item.output = work(item.input); });
        write_in_turn(item);
      }
    });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Item {
    std::int64_t turn = 0;
    Input input;
    Output output;
    std::exception_ptr failure;
  };

  template <class Action>
  static void attempt(Item& item, const Action& action) {
    try {
      action();
    } catch (...) {
      item.failure = std::current_exception();
    }
  }

  bool next(Item& item) {
    const std::lock_guard lock(input_mutex_);
    item = {};
    if (!ended_) attempt(item, [&] { ended_ = !take(item.input); });
    if (ended_) return false;
    if (item.failure) ended_ = true;
    item.turn = taken_++;
    return true;
  }

  void write_in_turn(Item& item) {
    std::unique_lock lock(output_mutex_);
    turn_changed_.wait(lock, [&] { return written_ == item.turn; });
    if (!failure_) {
      if (!item.failure) attempt(item, [&] { write(item.output); });
      failure_ = item.failure;
    }
    ++written_;
    turn_changed_.notify_all();
    if (failure_) {
      const std::lock_guard input_lock(input_mutex_);
      ended_ = true;
    }
  }

  std::mutex input_mutex_;  // guards the two below
  std::int64_t taken_ = 0;
  bool ended_ = false;

  std::mutex output_mutex_;  // guards the two below; taken before input_mutex_
  std::condition_variable turn_changed_;
  std::int64_t written_ = 0;
  std::exception_ptr failure_;
};

}  // namespace flywheel
