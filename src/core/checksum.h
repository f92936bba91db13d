#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace flywheel {

// XXH3 with 64 bits.
std::uint64_t checksum(std::span<const std::byte> bytes);
std::uint64_t checksum_of_file(const std::filesystem::path& path);  // streams; Error Io
std::string checksum_text(std::uint64_t value);                     // 16 hexadecimal digits

// The same over bytes that arrive in pieces.
class StreamingChecksum {
 public:
  StreamingChecksum();
  ~StreamingChecksum();
  StreamingChecksum(const StreamingChecksum&) = delete;
  StreamingChecksum& operator=(const StreamingChecksum&) = delete;
  void update(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flywheel
