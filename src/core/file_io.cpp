#include "core/file_io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace flywheel {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

[[noreturn]] void fail_io(const std::filesystem::path& path, const char* action) {
  fail(ErrorKind::Io, "{}: cannot {}: {}", path.string(), action, std::strerror(errno));
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : value_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (value_ < 0) fail_io(path, "open");
  }
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

std::size_t size_of_file(const std::filesystem::path& path, int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_io(path, "stat");
  if (S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    fail_io(path, "read");
  }
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

void create_folders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require(!error, ErrorKind::Io, "{}: cannot create the folder: {}", folder.string(),
          error.message());
}

std::string read_text_file(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY);
  std::string text;
  text.reserve(size_of_file(path, file.value()));
  std::string chunk(kBufferBytes, '\0');
  while (true) {
    const ssize_t count = ::read(file.value(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io(path, "read");
    if (count == 0) return text;
    text.append(chunk, 0, static_cast<std::size_t>(count));
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  try {
    FileWriter writer(temporary);
    writer.write(std::as_bytes(std::span(content)));
    writer.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_io(path, "rename to");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_path(path.has_parent_path() ? path.parent_path() : std::filesystem::path("."));
}

void sync_path(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY);
  if (::fsync(file.value()) != 0) fail_io(path, "fsync");
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file(path, O_RDONLY);
  size_ = size_of_file(path, file.value());
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (address == MAP_FAILED) fail_io(path, "map");  // NOLINT
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void release_mapped(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t end = (begin + bytes.size()) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);  // NOLINT
}

void prefetch_mapped(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = begin / page * page;
  ::madvise(reinterpret_cast<void*>(first), begin + bytes.size() - first, MADV_WILLNEED);  // NOLINT
}

void discard_pages(std::span<std::byte> bytes) {
  release_mapped(bytes);  // the system's call is the same for either kind
}

FileWriter::FileWriter(const std::filesystem::path& path)
    : path_(path),
      descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail_io(path, "create");
  buffer_.reserve(kBufferBytes);
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kBufferBytes - buffer_.size());
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), count);
    bytes = bytes.subspan(count);
    if (buffer_.size() == kBufferBytes) flush();
  }
}

void FileWriter::write_at(std::size_t offset, std::span<const std::byte> bytes) {
  flush();
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io(path_, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::size_t>(count);
  }
}

void FileWriter::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_io(path_, "write");
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  buffer_.clear();
}

void FileWriter::close() {
  flush();
  if (::fsync(descriptor_) != 0) fail_io(path_, "fsync");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_io(path_, "close");
}

}  // namespace flywheel
