#pragma once

#include <functional>
#include <string>
#include <utility>

#include "backend/backend.h"
#include "cuda/device/runtime.h"

namespace flywheel::cuda {

// Memory of the current device. Error Device with the name, the size and what the device has if
// there is not enough.
class Memory final : public DeviceMemory {
 public:
  Memory(std::int64_t bytes, const std::string& name);
  ~Memory() override;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const override { return static_cast<std::byte*>(data_); }
  std::int64_t bytes() const override { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_;
};

// A point of a stream.
class Event {
 public:
  enum class Kind { Untimed, Timed };
  explicit Event(Kind kind = Kind::Untimed);
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream) const;
  // Also if it was never recorded.
  bool is_reached() const;
  // Waits. Both are timed and were recorded.
  double milliseconds_since(const Event& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// A queue of work; it does not wait for others.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  // Waits, for all work or for an event. Error Device if anything on the device went wrong.
  void synchronize() const;
  void wait(const Event& event) const;
  // Is called over and over in waits, and ends one by throwing. Empty: nothing is called.
  void set_watch(std::function<void()> watch) { watch_ = std::move(watch); }

 private:
  template <class Query>
  void watch_until(const Query& query) const;

  cudaStream_t stream_ = nullptr;
  std::function<void()> watch_;
};

}  // namespace flywheel::cuda
