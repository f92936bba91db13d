#include "train/signals.h"

#include <signal.h>
#include <unistd.h>

#include <csignal>

namespace flywheel {
namespace {

constexpr int kInterruptedExitCode = 130;
volatile std::sig_atomic_t received_signal = 0;

void on_signal(int signal) {
  if (received_signal != 0) _exit(kInterruptedExitCode);
  received_signal = signal;
}

void install(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
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
