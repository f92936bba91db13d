#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace flywheel {

// The prompts of a file: one a line, lines without text left out; or, in a .jsonl or .ndjson file,
// the string "prompt" of each object. Error Data names file, line and fault.
std::vector<std::string> read_prompts(const std::filesystem::path& file);

}  // namespace flywheel
