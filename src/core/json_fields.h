#pragma once

// Visitors over the fields of config structs (core/fields.h): JSON in and out, `--set a.b=c`, the printed table.
// nlohmann/json is included here; keep this header out of headers.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.h"

namespace flywheel {

using Json = nlohmann::ordered_json;

// Faults found while reading a config, each with its path ("model.attention.window: ..."). All are reported at once.
class ConfigFaults {
 public:
  explicit ConfigFaults(std::string source) : source_(std::move(source)) {}
  void add(std::string_view path, std::string_view fault);
  bool empty() const { return faults_.empty(); }
  void throw_if_any() const;  // Error Config: "FILE: path: fault" (further faults on lines of their own)

 private:
  std::string source_;
  std::vector<std::string> faults_;
};

}  // namespace flywheel
