#include "data/input_files.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "data/file_pattern.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kEndings = {".txt", ".text", ".md", ".jsonl", ".ndjson"};

std::vector<fs::path> list_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string ending = entry.path().extension().string();
      const bool wanted = std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
      if (wanted && entry.is_regular_file()) files.push_back(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    fail(ErrorKind::Io, "{}: cannot list: {}", folder.string(), error.code().message());
  }
  require(!files.empty(), ErrorKind::Data,
          "{}: no .txt, .text, .md, .jsonl or .ndjson file in this folder", folder.string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<fs::path> list_text_files(const std::vector<std::string>& arguments) {
  std::vector<fs::path> files;
  std::set<fs::path> seen;
  const auto add = [&](const fs::path& file) {
    std::error_code error;  // a pipe has no canonical name
    const fs::path name = fs::canonical(file, error);
    if (seen.insert(error ? file : name).second) files.push_back(file);
  };
  for (const std::string& argument : arguments) {
    for (const fs::path& path : expand_pattern(argument)) {
      if (fs::is_directory(path)) {
        for (const fs::path& file : list_folder(path)) add(file);
      } else {
        add(path);
      }
    }
  }
  return files;
}

std::uint64_t total_size(const std::vector<fs::path>& files) {
  std::uint64_t total = 0;
  for (const fs::path& file : files) {
    std::error_code ignored;  // a pipe has no size
    const std::uint64_t size = fs::file_size(file, ignored);
    if (!ignored) total += size;
  }
  return total;
}

bool is_jsonl(const fs::path& path) {
  return path.extension() == ".jsonl" || path.extension() == ".ndjson";
}

}  // namespace flywheel
