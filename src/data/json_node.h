#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace flywheel {

// A value in a JSON file and the way to it, for errors that name both. Include in .cpp files only.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string where)
      : value_(&value), where_(std::move(where)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& where() const { return where_; }
  bool is_null() const { return value_->is_null(); }

  // A key of an object; null if it is missing.
  JsonNode operator[](std::string_view key) const {
    static const nlohmann::json null;
    if (!value_->is_object()) refuse("an object");
    const auto found = value_->find(key);
    return {found == value_->end() ? null : *found, where_ + "." + std::string(key)};
  }

  std::vector<JsonNode> items() const {
    if (!value_->is_array()) refuse("an array");
    std::vector<JsonNode> nodes;
    for (std::size_t i = 0; i < value_->size(); ++i) {
      nodes.emplace_back((*value_)[i], where_ + "[" + std::to_string(i) + "]");
    }
    return nodes;
  }

  const std::string& string() const {
    if (!value_->is_string()) refuse("a string");
    return value_->get_ref<const std::string&>();
  }

  std::string string_or(std::string_view fallback) const {
    return is_null() ? std::string(fallback) : string();
  }

  bool boolean_or(bool fallback) const {
    if (is_null()) return fallback;
    if (!value_->is_boolean()) refuse("true or false");
    return value_->get<bool>();
  }

  std::int64_t integer() const {
    // Values beyond 64 bits are unsigned or floating-point to the parser.
    if (!value_->is_number_integer()) refuse("an integer");
    if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX)
      refuse("an integer");
    return value_->get<std::int64_t>();
  }

  [[noreturn]] void refuse(std::string_view expected) const {
    // dump() recurses, so that a deep value would overflow the stack.
    std::string text = value_->is_structured() ? std::string("an ") + value_->type_name()
                                               : value_->dump(-1, ' ', true, kReplace);
    if (text.size() > 60) text.replace(57, std::string::npos, "...");
    fail(ErrorKind::Data, "{}: expected {}, not {}", where_, expected, text);
  }

 private:
  static constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  const nlohmann::json* value_;
  std::string where_;
};

// Parses a JSON file's content. Error Data: `source` and the place of the fault.
inline nlohmann::json parse_json(const std::string& content, const std::string& source) {
  try {
    return nlohmann::json::parse(content);
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::Data, "{}: not valid JSON: {}", source, error.what());
  }
}

}  // namespace flywheel
