#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace flywheel {

// Every function here throws Error Io with the path and the operating system's reason.

std::string read_text_file(const std::filesystem::path& path);

// With all above it; one that exists is fine.
void create_folders(const std::filesystem::path& folder);

// Readers see the old content or the new one, never a part: written beside, fsynced, renamed,
// folder fsynced.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Flushes a file's or a folder's content to the disk.
void sync_path(const std::filesystem::path& path);

// A file mapped for reading. Pages are read on first touch; an empty file maps to no bytes.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Of a MappedFile: its whole pages leave this process, so that they no longer count as its memory;
// the next read brings them back.
void release_mapped(std::span<const std::byte> bytes);

// Of a MappedFile: the system begins to read it, without a wait.
void prefetch_mapped(std::span<const std::byte> bytes);

// Of memory that is no file's: its whole pages are given back, and are zeros when they are read.
void discard_pages(std::span<std::byte> bytes);

// A file written from start to end through a buffer. close() reports what the disk refused; a
// writer that is destroyed without close() leaves an incomplete file behind.
class FileWriter {
 public:
  explicit FileWriter(const std::filesystem::path& path);  // creates or truncates
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write_at(std::size_t offset, std::span<const std::byte> bytes);  // rewrites earlier bytes
  void close();                                                         // flushes and fsyncs
  std::size_t size() const { return size_; }

 private:
  void flush();
  std::filesystem::path path_;
  std::string buffer_;
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace flywheel
