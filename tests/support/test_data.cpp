#include "support/test_data.h"

#include <stdlib.h>

#include <cstdlib>
#include <stdexcept>

namespace flywheel::test {

namespace fs = std::filesystem;

std::optional<fs::path> real_data(const std::string& relative_path) {
  const char* folder = std::getenv("FLYWHEEL_DATA");
  const fs::path path = fs::path(folder ? folder : "../shared/data") / relative_path;
  if (!fs::exists(path)) return std::nullopt;
  return path;
}

fs::path golden(const std::string& relative_path) {
  return fs::path("tests/golden") / relative_path;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "flywheel_test_XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed for " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace flywheel::test
