#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/file_io.h"
#include "support/process.h"
#include "support/run_config.h"
#include "support/test_data.h"

namespace flywheel::test {

// A folder with tiny shards and a config over them, and the program `train` to run on it. The run
// goes into the folder "run" beside them.
class TrainProgram {
 public:
  TrainProgram() {
    write_file_atomically(config_path(), run_config_to_json(tiny_run(folder_.path())));
  }

  // Starts the program; its output goes to the file `log`.
  Process start(const std::vector<std::string>& arguments, const std::string& log = "log") const {
    std::vector<std::string> command{TRAIN_PROGRAM, "--config", config_path().string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return Process(command, path(log));
  }
  // Runs it to its end.
  int run(const std::vector<std::string>& arguments, const std::string& log = "log") const {
    return start(arguments, log).wait();
  }
  std::string log(const std::string& name = "log") const { return read_text_file(path(name)); }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  std::filesystem::path run_path(const std::string& name) const { return path("run") / name; }
  std::filesystem::path config_path() const { return path("my.json"); }
  std::string file(const std::string& name) const { return read_text_file(run_path(name)); }

 private:
  TemporaryFolder folder_;
};

}  // namespace flywheel::test
