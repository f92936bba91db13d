#include "simt/check/source_lines.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace simt {
namespace {

// Lines of these files say nothing about a kernel.
bool is_helper(const std::string& line) {
  for (const char* file : {"gpu.h:", "intrinsics.h:", "launch.h:", "device.h:", "types.h:"}) {
    if (line.rfind(file, 0) == 0) return true;
  }
  return false;
}

}  // namespace

std::uint32_t code_offset(const void* return_address) {
  static const auto base = [] {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&code_offset), &info);
    return reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  }();
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(return_address) - base);
}

std::string line_of(std::uint32_t code_offset) {
  const std::string command =
      fmt::format("addr2line -i -s -e /proc/{}/exe {:#x}", getpid(), code_offset - 1);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string line = "?";
  char buffer[512];
  while (pipe && std::fgets(buffer, sizeof(buffer), pipe.get())) {
    line = buffer;
    line.erase(line.find_first_of(" \n"));
    if (!is_helper(line)) break;
  }
  return line;
}

}  // namespace simt
