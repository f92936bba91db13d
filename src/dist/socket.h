#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace flywheel {

using Deadline = std::chrono::steady_clock::time_point;

// One end of a TCP connection, or a listener. What goes wrong is the other side's end, or a time
// that has passed; nothing here throws but for addresses.
class Socket {
 public:
  enum class State : std::uint8_t { Done, Late, Gone };

  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  ~Socket();
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }

  // Error Comm if the port cannot be had.
  static Socket listen(std::int64_t port);
  // Tries until somebody listens there. Error Comm if nobody does, or if there is no such address.
  static Socket connect(const std::string& address, std::int64_t port, Deadline deadline);
  // Of a listener: invalid if nobody comes in time.
  Socket accept(Deadline deadline) const;

  bool valid() const { return file_ >= 0; }
  State send(const void* data, std::size_t bytes, Deadline deadline) const;
  State receive(void* data, std::size_t bytes, Deadline deadline) const;
  // The first byte that waits to be read, without taking it. Late: there is none yet.
  State peek(char& first) const;

 private:
  int file_ = -1;
};

}  // namespace flywheel
