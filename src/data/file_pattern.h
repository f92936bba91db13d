#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace flywheel {

// The files that a pattern with *, ? or [...] names, sorted by their bytes; the path itself where
// there is no such sign. Error Data where nothing is found.
std::vector<std::filesystem::path> expand_pattern(const std::string& pattern);

}  // namespace flywheel
