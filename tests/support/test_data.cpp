#include "support/test_data.h"

#include <cstdlib>

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

}  // namespace flywheel::test
