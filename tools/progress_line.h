#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace flywheel {

// On standard error: one line rewritten on a terminal, else a line every ten seconds.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }

  // Shows what text() returns, if it is time.
  template <class Text>
  void show(Text text) {
    const auto now = Clock::now();
    if (now - shown_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10)))
      return;
    shown_ = now;
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", text(), terminal_ ? "\033[K" : "\n");
  }

  void clear() const {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

}  // namespace flywheel
