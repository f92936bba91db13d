#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/file_io.h"

namespace flywheel::test {

// A child process whose standard output and error go to a file. It is killed with the object.
class Process {
 public:
  Process(std::vector<std::string> command, const std::filesystem::path& output) : output_(output) {
    std::vector<char*> arguments;
    for (std::string& argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    child_ = fork();
    if (child_ != 0) {
      close(file);
      if (file < 0 || child_ < 0) throw std::runtime_error("cannot start " + command[0]);
      return;
    }
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  ~Process() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const { kill(child_, signal); }
  bool is_running() {
    if (child_ <= 0) return false;
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid == 0;
  }
  // The exit code; 128 + N after signal N.
  int wait() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string output() const { return read_text_file(output_); }

 private:
  std::filesystem::path output_;
  pid_t child_ = -1;
};

}  // namespace flywheel::test
