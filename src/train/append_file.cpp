#include "train/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace flywheel {

AppendFile::AppendFile(const std::filesystem::path& path)
    : path_(path),
      descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  require(descriptor_ >= 0, ErrorKind::Io, "{}: cannot open for appending: {}", path.string(),
          std::strerror(errno));
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

void AppendFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    require(count >= 0, ErrorKind::Io, "{}: cannot write: {}", path_.string(),
            std::strerror(errno));
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace flywheel
