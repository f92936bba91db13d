#pragma once

#include <filesystem>

namespace flywheel {

// An empty folder below the system's folder for temporary files, removed with the object and all
// that is in it. Error Io if it cannot be made.
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

}  // namespace flywheel
