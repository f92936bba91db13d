#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flywheel {

// Faults of a config, each with its source and path ("demo.json: model.attention.window: ..."),
// gathered so that all are reported at once. The first fault of a path hides later ones of the same
// path.
class ConfigFaults {
 public:
  // `source` is the file, or "--set KEY=VALUE"; empty where there is none.
  explicit ConfigFaults(std::string source = {}) : source_(std::move(source)) {}

  void set_source(std::string source) { source_ = std::move(source); }
  void add(std::string_view path, std::string_view fault);
  void require(bool condition, std::string_view path, std::string_view fault) {
    if (!condition) add(path, fault);
  }
  bool empty() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }
  void throw_if_any() const;  // Error Config, one fault a line

 private:
  std::string source_;
  std::vector<std::string> paths_;
  std::vector<std::string> lines_;
};

}  // namespace flywheel
