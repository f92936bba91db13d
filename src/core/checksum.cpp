#include "core/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "core/error.h"

namespace flywheel {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

struct StreamingChecksum::State {
  XXH3_state_t* state = XXH3_createState();
  ~State() { XXH3_freeState(state); }
};

StreamingChecksum::StreamingChecksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(state_->state);
}
StreamingChecksum::~StreamingChecksum() = default;

void StreamingChecksum::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->state, bytes.data(), bytes.size());
}

std::uint64_t StreamingChecksum::value() const {
  return XXH3_64bits_digest(state_->state);
}

std::uint64_t checksum_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), ErrorKind::Io, "{}: cannot open: {}", path.string(),
          std::strerror(errno));
  StreamingChecksum sum;
  std::vector<char> buffer(1 << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    sum.update(std::as_bytes(std::span(buffer.data(), static_cast<std::size_t>(file.gcount()))));
  }
  require(!file.bad(), ErrorKind::Io, "{}: cannot read: {}", path.string(), std::strerror(errno));
  return sum.value();
}

}  // namespace flywheel
