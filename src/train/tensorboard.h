#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace flywheel {

struct Scalar {
  std::string_view tag;
  double value = 0;
};

// The framing of event files: length, its masked CRC-32C, the record, its masked CRC-32C,
// little-endian.
std::string frame_record(std::string_view record);
std::uint32_t crc32c(std::string_view bytes);  // Castagnoli polynomial

// Writes TensorBoard event files, one a start of the program.
class EventWriter {
 public:
  // Events of `first_step` and later in older files of the folder are forgotten by readers.
  EventWriter(const std::filesystem::path& folder, std::int64_t first_step, double wall_time);
  ~EventWriter();
  void write(std::int64_t step, double wall_time, std::span<const Scalar> scalars);
  // For the text dashboard.
  void write_text(std::int64_t step, double wall_time, std::string_view tag, std::string_view text);
  const std::filesystem::path& path() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flywheel
