#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace flywheel {

// The text files that arguments name, in the order of the arguments, sorted within each, none
// twice. An argument is a file (any name), a pattern, or a folder, of which all files below with
// the ending .txt, .text, .md, .jsonl or .ndjson are taken. Error Data where an argument yields
// nothing.
std::vector<std::filesystem::path> list_text_files(const std::vector<std::string>& arguments);

// Bytes of all files; those without a size, as pipes, count nothing.
std::uint64_t total_size(const std::vector<std::filesystem::path>& files);

bool is_jsonl(const std::filesystem::path& path);  // by its ending

}  // namespace flywheel
