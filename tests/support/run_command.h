#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace flywheel::test {

struct CommandResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string output;  // standard output and error
};

// Runs a shell command line in `folder`.
inline CommandResult run_command(const std::filesystem::path& folder, const std::string& command) {
  const std::string line = "cd '" + folder.string() + "' && " + command + " 2>&1 </dev/null";
  std::FILE* pipe = ::popen(line.c_str(), "r");
  if (!pipe) throw std::runtime_error("popen failed for " + line);
  CommandResult result;
  char buffer[4096];
  for (std::size_t count; (count = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    result.output.append(buffer, count);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

}  // namespace flywheel::test
