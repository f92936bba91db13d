#include "core/json_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/file_io.h"
#include "core/nearest_name.h"

namespace flywheel {
namespace {

constexpr std::uintmax_t kMaxConfigBytes = std::uintmax_t{16} << 20;
constexpr int kMaxDepth = 64;

std::string type_of(const Json& json) {
  if (json.is_null()) return "null";
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string hint(std::string_view name, std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

std::string keys_hint(const Json& object, std::string_view key) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return hint(key, keys);
}

// "line:column" of a byte offset, both from 1.
std::string position_in(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column = start == before.npos ? before.size() : before.size() - start - 1;
  return fmt::format("{}:{}", line, std::max<std::size_t>(column, 1));
}

// nlohmann's message without its prefix of error number and position.
std::string cause_of(std::string_view what) {
  for (const std::string_view mark : {" - ", "column ", "] "}) {
    std::size_t at = what.find(mark);
    if (at == what.npos) continue;
    if (mark == "column ") at = what.find(": ", at);
    return std::string(what.substr(at == what.npos ? 0 : at + (mark == " - " ? 3 : 2)));
  }
  return std::string(what);
}

template <class Integer>
void read_integer(Integer& out, const Json& json, std::string_view expected,
                  const std::string& path, ConfigFaults& faults) {
  // 2^63 and 2^64: the first values that do not fit.
  const double limit = std::is_signed_v<Integer> ? 0x1p63 : 0x1p64;
  const double low = std::is_signed_v<Integer> ? -0x1p63 : 0;
  bool fits = false;
  if (json.is_number_unsigned()) {
    fits = std::in_range<Integer>(json.get<std::uint64_t>());
  } else if (json.is_number_integer()) {
    fits = std::in_range<Integer>(json.get<std::int64_t>());
  } else if (json.is_number_float()) {  // 1e6
    const double value = json.get<double>();
    fits = value == std::floor(value) && value >= low && value < limit;
    if (fits) out = static_cast<Integer>(value);
    return fits ? void() : json_fields::refuse_type(json, expected, path, faults);
  }
  if (!fits) return json_fields::refuse_type(json, expected, path, faults);
  out = json.get<Integer>();
}

Json parse_override_value(const std::string& text, const Json& old) {
  if (old.is_string() && !text.starts_with('"')) return text;
  Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

// A string that is not could not be written to a file again.
bool is_utf8(const Json& value) {
  if (!value.is_string()) return true;
  const Json escaped = Json::parse(value.dump(-1, ' ', false, Json::error_handler_t::replace));
  return escaped == value;
}

// The child `key` of `node`, made where a list may grow; nullptr after a fault.
Json* step_into(Json& node, const std::string& key, const std::string& path, ConfigFaults& faults) {
  if (node.is_object()) {
    const auto found = node.find(key);
    if (found != node.end()) return &*found;
    faults.add(json_fields::join(path, key), "unknown key" + keys_hint(node, key));
    return nullptr;
  }
  if (!node.is_array()) {
    faults.add(path, fmt::format("has no keys of its own, so '{}' cannot be set", key));
    return nullptr;
  }
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc{} || end != key.data() + key.size() || index > node.size()) {
    faults.add(path, fmt::format("expected an index of 0 to {}, got '{}'", node.size(), key));
    return nullptr;
  }
  if (index == node.size()) node.push_back(nullptr);
  return &node[index];
}

void add_rows(const Json& value, const Json* defaults, const std::string& path,
              std::vector<FieldRow>& rows) {
  const bool objects = value.is_array() && !value.empty() && value.front().is_object();
  if (!value.is_object() && !objects) {
    rows.push_back({path, value.dump(), defaults ? defaults->dump() : "", "", ""});
    return;
  }
  std::size_t index = 0;
  for (const auto& item : value.items()) {
    const Json* child = nullptr;
    if (defaults && defaults->is_object() && defaults->contains(item.key())) {
      child = &defaults->at(item.key());
    }
    const std::string key = objects ? std::to_string(index++) : item.key();
    add_rows(item.value(), child, json_fields::join(path, key), rows);
  }
}

std::string type_in_schema(const Json& schema) {
  if (schema.contains("anyOf")) return type_in_schema(schema["anyOf"][0]) + " or null";
  if (schema.contains("enum")) {
    std::string text;
    for (const Json& name : schema["enum"]) {
      text += (text.empty() ? "" : ", ") + name.get<std::string>();
    }
    return "one of " + text;
  }
  const Json& type = schema["type"];
  if (type.is_array()) return "string or object";
  return type == "array" ? "list of " + type_in_schema(schema["items"]) : type.get<std::string>();
}

void add_reference(const Json& schema, const std::string& path, std::vector<FieldRow>& rows) {
  if (schema.contains("properties")) {
    for (const auto& item : schema["properties"].items()) {
      const Json& field = item.value();
      const std::string name = json_fields::join(path, item.key());
      if (field.contains("default")) {
        const std::string value = field["default"].dump();
        rows.push_back({name, value, value, type_in_schema(field), field["description"]});
      }
      add_reference(field, name, rows);
    }
  }
  if (schema.contains("items")) add_reference(schema["items"], path + "[]", rows);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& source) {
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  const auto watch = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    require(depth <= kMaxDepth, ErrorKind::Config, "{}: more than {} levels of nesting", source,
            kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && duplicate.empty() &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      duplicate = parsed.get<std::string>();
    }
    return true;
  };
  try {
    Json json = Json::parse(text, watch);
    require(duplicate.empty(), ErrorKind::Config, "{}: the key '{}' appears twice in one object",
            source, duplicate);
    return json;
  } catch (const nlohmann::json::parse_error& error) {
    fail(ErrorKind::Config, "{}:{}: not valid JSON: {}", source, position_in(text, error.byte),
         cause_of(error.what()));
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorKind::Config, "{}: not valid JSON: {}", source, cause_of(error.what()));
  }
}

Json read_json_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::uintmax_t bytes = std::filesystem::file_size(path, ignored);
  require(ignored || bytes <= kMaxConfigBytes, ErrorKind::Config,
          "{}: {} bytes is too large for a JSON config (limit {})", path.string(), bytes,
          kMaxConfigBytes);
  return parse_json(read_text_file(path), path.string());
}

void apply_override(Json& config, std::string_view assignment, ConfigFaults& faults) {
  const std::size_t equals = assignment.find('=');
  if (equals == assignment.npos || equals == 0) {
    faults.add("", "expected KEY=VALUE, as in train.max_steps=100");
    return;
  }
  const std::string_view keys = assignment.substr(0, equals);
  Json* node = &config;
  std::string path;
  for (std::size_t begin = 0; begin <= keys.size();) {
    const std::size_t end = std::min(keys.find('.', begin), keys.size());
    const std::string key(keys.substr(begin, end - begin));
    node = step_into(*node, key, path, faults);
    if (!node) return;
    path = json_fields::join(path, key);
    begin = end + 1;
  }
  Json value = parse_override_value(std::string(assignment.substr(equals + 1)), *node);
  if (!is_utf8(value)) return faults.add(path, "the value is not valid UTF-8");
  *node = std::move(value);
}

std::vector<FieldRow> config_rows(const Json& config, const Json& defaults) {
  std::vector<FieldRow> rows;
  add_rows(config, &defaults, "", rows);
  return rows;
}

std::vector<FieldRow> reference_rows(const Json& schema) {
  std::vector<FieldRow> rows;
  add_reference(schema, "", rows);
  return rows;
}

namespace json_fields {

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

void refuse_type(const Json& json, std::string_view expected, const std::string& path,
                 ConfigFaults& faults) {
  faults.add(path, fmt::format("expected {}, got {}", expected, type_of(json)));
}

void refuse_unknown_keys(const Json& json, std::span<const std::string> known,
                         const std::string& path, ConfigFaults& faults) {
  for (const auto& item : json.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    faults.add(join(path, item.key()), "unknown key" + hint(item.key(), known));
  }
}

void read(bool& out, const Json& json, const std::string& path, ConfigFaults& faults) {
  if (!json.is_boolean()) return refuse_type(json, "true or false", path, faults);
  out = json.get<bool>();
}

void read(std::int64_t& out, const Json& json, const std::string& path, ConfigFaults& faults) {
  read_integer(out, json, "an integer", path, faults);
}

void read(std::uint64_t& out, const Json& json, const std::string& path, ConfigFaults& faults) {
  read_integer(out, json, "an integer of 0 or more", path, faults);
}

void read(double& out, const Json& json, const std::string& path, ConfigFaults& faults) {
  if (!json.is_number()) return refuse_type(json, "a number", path, faults);
  out = json.get<double>();
}

void read(std::string& out, const Json& json, const std::string& path, ConfigFaults& faults) {
  if (!json.is_string()) return refuse_type(json, "a string", path, faults);
  out = json.get<std::string>();
}

int read_name(const Json& json, std::span<const std::string> names, const std::string& path,
              ConfigFaults& faults) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "'" : ", '") + name + "'";
  if (!json.is_string()) {
    refuse_type(json, "one of " + list, path, faults);
    return -1;
  }
  const std::string text = json.get<std::string>();
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  faults.add(path,
             fmt::format("expected one of {}, got {}{}", list, type_of(json), hint(text, names)));
  return -1;
}

}  // namespace json_fields
}  // namespace flywheel
