#include "data/file_pattern.h"

#include <glob.h>

#include <algorithm>

#include "core/error.h"

namespace flywheel {

std::vector<std::filesystem::path> expand_pattern(const std::string& pattern) {
  namespace fs = std::filesystem;
  if (fs::exists(pattern)) return {pattern};
  require(pattern.find_first_of("*?[") != std::string::npos, ErrorKind::Data,
          "{}: no such file or folder", pattern);
  glob_t found{};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<fs::path> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  require(result == 0 || result == GLOB_NOMATCH, ErrorKind::Io, "{}: cannot be expanded", pattern);
  require(!paths.empty(), ErrorKind::Data, "{}: no file matches this pattern", pattern);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace flywheel
