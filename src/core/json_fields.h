#pragma once

// Config structs (core/fields.h) from and to JSON. nlohmann/json is included here: keep this header
// out of headers.

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/config_faults.h"
#include "core/fields.h"

namespace flywheel {

using Json = nlohmann::ordered_json;

// Error Config names `source`, line and column; duplicate keys and more than 64 levels are errors
// too.
Json parse_json(std::string_view text, const std::string& source);
Json read_json_file(const std::filesystem::path& path);  // at most 16 MiB

// Puts the value of "a.b.0.c=value" into `config`, the JSON of a whole config. The value is JSON
// or, where that fails or the old value is a string, plain text. An index equal to a list's length
// appends.
void apply_override(Json& config, std::string_view assignment, ConfigFaults& faults);

// One leaf of a config or, in the reference, one key that may be set.
struct FieldRow {
  std::string path;
  std::string value;     // as compact JSON
  std::string defaults;  // as compact JSON; empty where there is none
  std::string type;      // reference only: "integer", "one of cosine, linear", ...
  std::string help;      // reference only
  bool is_default() const { return value == defaults; }
};
std::vector<FieldRow> config_rows(const Json& config, const Json& defaults);
// The keys that a schema describes; an element of a list is "path[]".
std::vector<FieldRow> reference_rows(const Json& schema);

namespace json_fields {

struct AnyVisitor {
  template <class Field>
  void operator()(const char*, Field&, const char*) {}
};
template <class T>
concept Section = requires(T& value, AnyVisitor& visitor) {
  T::visit_fields(value, visitor);
};
template <class T>
concept NamedEnum = std::is_enum_v<T> && requires {
  enum_names(T{});
};
// A section that may also be written as a bare string: set_short_form(text) takes it (unknown text
// is for validation to refuse); short_form() gives it, or "" where the string would not say
// everything.
template <class T>
concept ShortForm = requires(T& value, const T& constant, const std::string& text) {
  value.set_short_form(text);
  { constant.short_form() } -> std::convertible_to<std::string>;
};

void read(bool& out, const Json& json, const std::string& path, ConfigFaults& faults);
void read(std::int64_t& out, const Json& json, const std::string& path, ConfigFaults& faults);
void read(std::uint64_t& out, const Json& json, const std::string& path, ConfigFaults& faults);
void read(double& out, const Json& json, const std::string& path, ConfigFaults& faults);
void read(std::string& out, const Json& json, const std::string& path, ConfigFaults& faults);
// The index of the name that `json` is, or -1 after a fault.
int read_name(const Json& json, std::span<const std::string> names, const std::string& path,
              ConfigFaults& faults);
void refuse_unknown_keys(const Json& json, std::span<const std::string> known,
                         const std::string& path, ConfigFaults& faults);
void refuse_type(const Json& json, std::string_view expected, const std::string& path,
                 ConfigFaults& faults);
std::string join(const std::string& path, std::string_view key);

template <NamedEnum T>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& entry : enum_names(T{})) names.emplace_back(entry.name);
  return names;
}

template <NamedEnum T>
void read(T& out, const Json& json, const std::string& path, ConfigFaults& faults) {
  const int index = read_name(json, names_of<T>(), path, faults);
  if (index >= 0) out = enum_names(T{}).at(static_cast<std::size_t>(index)).value;
}

template <class T>
void read(std::optional<T>& out, const Json& json, const std::string& path, ConfigFaults& faults);
template <class T>
void read(std::vector<T>& out, const Json& json, const std::string& path, ConfigFaults& faults);

template <Section T>
void read(T& out, const Json& json, const std::string& path, ConfigFaults& faults) {
  if constexpr (ShortForm<T>) {
    if (json.is_string()) return out.set_short_form(json.get<std::string>());
  }
  if (!json.is_object()) return refuse_type(json, "an object", path, faults);
  std::vector<std::string> known;
  auto visit = [&](const char* name, auto& field, const char*) {
    known.emplace_back(name);
    if (const auto value = json.find(name); value != json.end()) {
      read(field, *value, join(path, name), faults);
    }
  };
  T::visit_fields(out, visit);
  refuse_unknown_keys(json, known, path, faults);
}

template <class T>
void read(std::optional<T>& out, const Json& json, const std::string& path, ConfigFaults& faults) {
  out.reset();
  if (!json.is_null()) read(out.emplace(), json, path, faults);
}

// A bare string stands for a list of it alone.
template <class T>
void read(std::vector<T>& out, const Json& json, const std::string& path, ConfigFaults& faults) {
  if (!json.is_array() && !json.is_string()) return refuse_type(json, "a list", path, faults);
  out.clear();
  if (json.is_string()) return read(out.emplace_back(), json, path, faults);
  for (const Json& element : json) {
    const std::string index = std::to_string(out.size());
    read(out.emplace_back(), element, join(path, index), faults);
  }
}

template <class T>
Json write(const std::optional<T>& value);
template <class T>
Json write(const std::vector<T>& values);

template <class T>
Json write(const T& value) {
  if constexpr (NamedEnum<T>) {
    return std::string(name_of_enum(value));
  } else if constexpr (Section<const T>) {
    if constexpr (ShortForm<T>) {
      if (std::string text = value.short_form(); !text.empty()) return text;
    }
    Json object = Json::object();
    auto visit = [&](const char* name, const auto& field, const char*) {
      object[name] = write(field);
    };
    T::visit_fields(value, visit);
    return object;
  } else {
    return value;
  }
}
template <class T>
Json write(const std::optional<T>& value) {
  return value ? write(*value) : Json(nullptr);
}
template <class T>
Json write(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(write(value));
  return list;
}

template <class T>
struct SchemaOf {
  static Json get() {
    if constexpr (NamedEnum<T>) {
      return {{"type", "string"}, {"enum", names_of<T>()}};
    } else if constexpr (Section<T>) {
      Json properties = Json::object();
      T value;
      auto visit = [&](const char* name, auto& field, const char* help) {
        using Field = std::remove_cvref_t<decltype(field)>;
        Json schema = SchemaOf<Field>::get();
        schema["description"] = help;
        if constexpr (!Section<Field>) schema["default"] = write(field);
        properties[name] = std::move(schema);
      };
      T::visit_fields(value, visit);
      Json types = "object";
      if constexpr (ShortForm<T>) types = {"string", "object"};
      return {{"type", types}, {"properties", properties}, {"additionalProperties", false}};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {{"type", "boolean"}};
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      return {{"type", "integer"}, {"minimum", 0}};
    } else if constexpr (std::is_integral_v<T>) {
      return {{"type", "integer"}};
    } else if constexpr (std::is_floating_point_v<T>) {
      return {{"type", "number"}};
    } else {
      static_assert(std::is_same_v<T, std::string>, "no JSON form for this type");
      return {{"type", "string"}};
    }
  }
};
template <class T>
struct SchemaOf<std::optional<T>> {
  static Json get() { return {{"anyOf", {SchemaOf<T>::get(), {{"type", "null"}}}}}; }
};
template <class T>
struct SchemaOf<std::vector<T>> {
  static Json get() { return {{"type", "array"}, {"items", SchemaOf<T>::get()}}; }
};

}  // namespace json_fields

// Reads the fields that `json` gives and leaves the others as they are.
template <class Config>
void read_fields(Config& config, const Json& json, ConfigFaults& faults,
                 const std::string& path = "") {
  json_fields::read(config, json, path, faults);
}

template <class Config>
Json write_fields(const Config& config) {
  return json_fields::write(config);
}

// JSON Schema (draft 2020-12) of a config struct.
template <class Config>
Json schema_of() {
  return json_fields::SchemaOf<Config>::get();
}

// Applies "a.b=c" overrides to a config, in their order.
template <class Config>
void override_fields(Config& config, std::span<const std::string> assignments,
                     ConfigFaults& faults) {
  for (const std::string& assignment : assignments) {
    faults.set_source("--set " + assignment);
    Json json = write_fields(config);
    apply_override(json, assignment, faults);
    read_fields(config, json, faults);
  }
}

}  // namespace flywheel
