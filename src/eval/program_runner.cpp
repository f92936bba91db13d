#include "eval/program_runner.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "core/file_io.h"
#include "core/temporary_folder.h"

namespace flywheel {
namespace {

constexpr int kRanToItsEnd = 42;  // a program that exits by itself ends with another code
constexpr int kNoPython = 127;
constexpr const char* kProgramFile = "program.py";
constexpr std::chrono::milliseconds kInterpreterStart{1000};
constexpr std::chrono::milliseconds kPoll{2};

void limit_to(__rlimit_resource_t resource, rlim_t most) {
  const rlimit limit{most, most};
  setrlimit(resource, &limit);
}

// In the child: system calls only, since the parent has threads.
[[noreturn]] void become_program(const char* folder, rlim_t seconds) {
  setsid();
  unshare(CLONE_NEWUSER | CLONE_NEWNET);
  limit_to(RLIMIT_CPU, seconds);
  limit_to(RLIMIT_AS, rlim_t{4} << 30);
  limit_to(RLIMIT_FSIZE, rlim_t{16} << 20);
  limit_to(RLIMIT_CORE, 0);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, stream);
  if (chdir(folder) == 0) execlp("python3", "python3", "-I", "-B", kProgramFile, nullptr);
  _exit(kNoPython);
}

// The exit code of a child that leads a process group; -1: it was killed, by us or by itself.
int wait_and_clear(pid_t child, std::chrono::steady_clock::time_point deadline) {
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPoll);
  }
  kill(-child, SIGKILL);
  if (ended == 0) waitpid(child, &status, 0);
  return ended != 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

bool runs_to_its_end(const std::string& program, std::chrono::milliseconds limit) {
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / kProgramFile,
                        fmt::format("{}\n__import__('os')._exit({})\n", program, kRanToItsEnd));
  const auto allowed = limit + kInterpreterStart;
  const auto seconds = static_cast<rlim_t>(allowed / std::chrono::seconds(1)) + 1;
  const pid_t child = fork();
  require(child >= 0, ErrorKind::Io, "no process for a program: {}", std::strerror(errno));
  if (child == 0) become_program(folder.path().c_str(), seconds);
  const int code = wait_and_clear(child, std::chrono::steady_clock::now() + allowed);
  require(code != kNoPython, ErrorKind::Config, "python3 is needed to run programs: install it");
  return code == kRanToItsEnd;
}

}  // namespace flywheel
