#pragma once

#include <filesystem>
#include <string_view>

namespace flywheel {

// A file that only grows. Each append is one write to the operating system, so that what was
// appended survives the death of this process. Error Io names the path.
class AppendFile {
 public:
  explicit AppendFile(const std::filesystem::path& path);  // creates it where it is missing
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace flywheel
