#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "core/file_io.h"
#include "train/inspection.h"

namespace flywheel::test {

// A fact's value; "no such fact" where it is absent.
inline InspectedValue fact(const Inspection& inspection, const std::string& key) {
  for (const InspectedFact& known : inspection.facts) {
    if (known.key == key) return known.value;
  }
  return "no such fact";
}

inline std::string joined_faults(const Inspection& inspection) {
  std::string text;
  for (const std::string& fault : inspection.faults) text += fault + "\n";
  return text;
}

// Inverts the bits of one byte; a negative offset counts from the end.
inline void damage_byte(const std::filesystem::path& file, std::int64_t offset) {
  std::string content = read_text_file(file);
  const auto at = static_cast<std::size_t>(
      offset < 0 ? static_cast<std::int64_t>(content.size()) + offset : offset);
  content.at(at) = static_cast<char>(~content[at]);
  write_file_atomically(file, content);
}

}  // namespace flywheel::test
