#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/temporary_folder.h"

namespace flywheel::test {

// A file below the folder of real data (environment variable FLYWHEEL_DATA, else ../shared/data);
// nothing where it does not exist: the test then says that it skips and returns.
std::optional<std::filesystem::path> real_data(const std::string& relative_path);

// A file below tests/golden.
std::filesystem::path golden(const std::string& relative_path);

using flywheel::TemporaryFolder;

}  // namespace flywheel::test
