#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace flywheel::test {

// A file below the folder of real data (environment variable FLYWHEEL_DATA, else ../shared/data);
// nothing where it does not exist: the test then says that it skips and returns.
std::optional<std::filesystem::path> real_data(const std::string& relative_path);

// A file below tests/golden.
std::filesystem::path golden(const std::string& relative_path);

// An empty folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace flywheel::test
