#include "dist/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "core/error.h"

namespace flywheel {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const char* host, std::int64_t port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = host == nullptr ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host, std::to_string(port).c_str(), &wanted, &found);
  require(status == 0, ErrorKind::Comm, "MASTER_ADDR={}: {}", host == nullptr ? "" : host,
          gai_strerror(status));
  return {found, freeaddrinfo};
}

Socket open_for(const addrinfo& address) {
  return Socket(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0));
}

void prepare(int file) {
  const int on = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
}

bool wait_for(int file, short events, Deadline deadline) {
  using std::chrono::milliseconds;
  constexpr milliseconds kLongest{60'000};
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    pollfd entry{.fd = file, .events = events, .revents = 0};
    const auto patience = std::clamp(left, milliseconds{0}, kLongest);
    const int ready = poll(&entry, 1, static_cast<int>(patience.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (left <= milliseconds{0}) return false;
  }
}

// Moves all bytes by calls that may move a part.
template <class Move>
Socket::State move_all(int file, short events, char* data, std::size_t bytes, Deadline deadline,
                       const Move& move) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t moved = move(data + done, bytes - done);
    if (moved > 0) {
      done += static_cast<std::size_t>(moved);
    } else if (moved == 0 || (errno != EAGAIN && errno != EINTR)) {
      return Socket::State::Gone;
    } else if (!wait_for(file, events, deadline)) {
      return Socket::State::Late;
    }
  }
  return Socket::State::Done;
}

}  // namespace

Socket::~Socket() {
  if (file_ >= 0) close(file_);
}

Socket Socket::listen(std::int64_t port) {
  const Addresses addresses = resolve(nullptr, port);
  int fault = 0;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    Socket socket = open_for(*a);
    const int on = 1;
    setsockopt(socket.file_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket.valid() && bind(socket.file_, a->ai_addr, a->ai_addrlen) == 0 &&
        ::listen(socket.file_, SOMAXCONN) == 0) {
      return socket;
    }
    fault = errno;
  }
  fail(ErrorKind::Comm, "rank 0 cannot listen at port {}: {}; set another MASTER_PORT", port,
       std::strerror(fault));
}

Socket Socket::connect(const std::string& address, std::int64_t port, Deadline deadline) {
  const Addresses addresses = resolve(address.c_str(), port);
  for (;;) {
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
      Socket socket = open_for(*a);
      if (!socket.valid() || ::connect(socket.file_, a->ai_addr, a->ai_addrlen) != 0) continue;
      prepare(socket.file_);
      return socket;
    }
    require(Clock::now() < deadline, ErrorKind::Comm,
            "rank 0 does not listen at {}:{}: {}; is it running, and MASTER_ADDR its machine?",
            address, port, std::strerror(errno));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Socket Socket::accept(Deadline deadline) const {
  if (!wait_for(file_, POLLIN, deadline)) return {};
  Socket socket(accept4(file_, nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.valid()) prepare(socket.file_);
  return socket;
}

Socket::State Socket::send(const void* data, std::size_t bytes, Deadline deadline) const {
  return move_all(
      file_, POLLOUT, static_cast<char*>(const_cast<void*>(data)), bytes, deadline,
      [&](const char* at, std::size_t left) { return ::send(file_, at, left, MSG_NOSIGNAL); });
}

Socket::State Socket::receive(void* data, std::size_t bytes, Deadline deadline) const {
  return move_all(file_, POLLIN, static_cast<char*>(data), bytes, deadline,
                  [&](char* at, std::size_t left) { return recv(file_, at, left, 0); });
}

Socket::State Socket::peek(char& first) const {
  const ssize_t seen = recv(file_, &first, 1, MSG_PEEK);
  if (seen > 0) return State::Done;
  return seen == 0 || (errno != EAGAIN && errno != EINTR) ? State::Gone : State::Late;
}

}  // namespace flywheel
