#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace flywheel {

// A text file, read in blocks of 1 MiB into a buffer from whose start the caller takes. A byte
// order mark of UTF-8 is left out; Error Data for UTF-16.
class BlockReader {
 public:
  static constexpr std::size_t kBlock = std::size_t{1} << 20;

  explicit BlockReader(const std::filesystem::path& path);  // Error Io, as for every read

  std::string_view text() const { return std::string_view(buffer_).substr(taken_); }
  bool at_end() const { return at_end_; }  // nothing will be added to text()
  void fill();                             // adds a block to text()
  void take(std::size_t bytes) { taken_ += bytes; }

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  std::string buffer_;
  std::size_t taken_ = 0;
  bool at_end_ = false;
};

}  // namespace flywheel
