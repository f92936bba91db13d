#include "core/config_faults.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"

namespace flywheel {

void ConfigFaults::add(std::string_view path, std::string_view fault) {
  if (!path.empty() && std::find(paths_.begin(), paths_.end(), path) != paths_.end()) return;
  paths_.emplace_back(path);
  std::string line = source_;
  for (const std::string_view part : {path, fault}) {
    if (!line.empty() && !part.empty()) line += ": ";
    line += part;
  }
  lines_.push_back(std::move(line));
}

void ConfigFaults::throw_if_any() const {
  if (!empty()) fail(ErrorKind::Config, "{}", fmt::join(lines_, "\n"));
}

}  // namespace flywheel
