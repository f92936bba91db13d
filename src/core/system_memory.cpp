#include "core/system_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace flywheel {
namespace {

std::optional<std::int64_t> first_number(const char* path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;  // "max" is no number
  return {};
}

std::optional<std::int64_t> meminfo_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    std::int64_t kibibytes = 0;
    if (key == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
    std::getline(file, key);
  }
  return {};
}

// memory.current counts cached pages, which can be dropped.
std::optional<std::int64_t> cgroup_available() {
  const auto limit = first_number("/sys/fs/cgroup/memory.max");
  const auto used = first_number("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return {};
  std::int64_t cached = 0;
  std::ifstream statistics("/sys/fs/cgroup/memory.stat");
  std::string key;
  std::int64_t value = 0;
  while (statistics >> key >> value) {
    if (key == "file") cached = value;
  }
  return std::max<std::int64_t>(0, *limit - *used + cached);
}

}  // namespace

std::optional<std::int64_t> available_memory() {
  const auto system = meminfo_available();
  const auto group = cgroup_available();
  if (system && group) return std::min(*system, *group);
  return system ? system : group;
}

}  // namespace flywheel
