#include "train/signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace flywheel {
namespace {

constexpr int kInterruptedExitCode = 130;
constexpr std::int64_t kSameRequestSeconds = 1;
volatile std::sig_atomic_t received_signal = 0;
timespec received_at = {};

timespec now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time;
}

bool long_after(const timespec& earlier, const timespec& later) {
  const std::int64_t seconds = later.tv_sec - earlier.tv_sec;
  return seconds > kSameRequestSeconds ||
         (seconds == kSameRequestSeconds && later.tv_nsec >= earlier.tv_nsec);
}

void on_signal(int signal) {
  const timespec time = now();
  if (received_signal == 0) {
    received_at = time;
    received_signal = signal;
  } else if (long_after(received_at, time)) {
    _exit(kInterruptedExitCode);
  }
}

void install(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

StopRequest::StopRequest() {
  received_signal = 0;
  install(on_signal);
}
StopRequest::~StopRequest() {
  install(SIG_DFL);
}

bool StopRequest::requested() const {
  return received_signal != 0;
}
const char* StopRequest::signal_name() const {
  return received_signal == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace flywheel
