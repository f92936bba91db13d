#include "train/inspection.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/json_fields.h"
#include "data/utf8.h"
#include "train/console.h"

namespace flywheel {
namespace {

std::string text_of(const InspectedValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "yes" : "no";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.6g}", *number);
  const auto& text = std::get<std::string>(value);
  const bool edge = text.starts_with(' ') || text.ends_with(' ');
  return edge ? "'" + text + "'" : text;
}

Json json_of(const InspectedValue& value) {
  return std::visit([](const auto& plain) { return Json(plain); }, value);
}

// The key's words: "bytes_a_token" is read "bytes a token".
std::string label_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

std::string table_text(const InspectedTable& table) {
  std::vector<std::vector<std::string>> rows{{}};
  for (const std::string& column : table.columns) rows[0].push_back(label_of(column));
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (const InspectedValue& value : row) cells.push_back(text_of(value));
    rows.push_back(std::move(cells));
  }
  return label_of(table.key) + "\n" + format_table(rows, table.left) + "\n";
}

Json json_of(const Inspection& inspection) {
  Json json = {{"path", inspection.path},
               {"kind", inspection.kind},
               {"whole", inspection.whole()},
               {"faults", inspection.faults}};
  for (const InspectedFact& fact : inspection.facts) json[fact.key] = json_of(fact.value);
  for (const InspectedTable& table : inspection.tables) {
    Json rows = Json::array();
    for (const auto& row : table.rows) {
      Json object = Json::object();
      for (std::size_t i = 0; i < row.size(); ++i) object[table.columns[i]] = json_of(row[i]);
      rows.push_back(std::move(object));
    }
    json[table.key] = std::move(rows);
  }
  return json;
}

std::string escaped_ascii(char letter) {
  switch (letter) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    case '\\':
      return "\\\\";
    default:
      break;
  }
  const auto byte = static_cast<unsigned char>(letter);
  const bool control = byte < 0x20 || byte >= 0x7F;
  return control ? fmt::format("\\x{:02x}", byte) : std::string(1, letter);
}

}  // namespace

void Inspection::add(std::string key, InspectedValue value, std::string note) {
  facts.push_back({std::move(key), std::move(value), std::move(note)});
}

void Inspection::guard(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    std::string_view lines = error.what();
    while (!lines.empty()) {
      const std::size_t end = std::min(lines.find('\n'), lines.size());
      faults.emplace_back(lines.substr(0, end));
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
  }
}

std::string to_text(const Inspection& inspection) {
  std::string text = fmt::format("{}: {}, {}\n", inspection.path, inspection.kind,
                                 inspection.whole() ? "whole" : "NOT WHOLE");
  std::size_t width = 0;
  for (const InspectedFact& fact : inspection.facts) width = std::max(width, fact.key.size());
  for (const InspectedFact& fact : inspection.facts) {
    text += fmt::format("  {:<{}}  {}", label_of(fact.key), width, text_of(fact.value));
    text += fact.note.empty() ? "\n" : fmt::format("  ({})\n", fact.note);
  }
  for (const InspectedTable& table : inspection.tables) {
    if (!table.rows.empty()) text += "  " + table_text(table);
  }
  for (const std::string& fault : inspection.faults) text += "  fault: " + fault + "\n";
  return text;
}

std::string to_json(std::span<const Inspection> inspections) {
  Json list = Json::array();
  bool whole = true;
  for (const Inspection& inspection : inspections) {
    whole = whole && inspection.whole();
    list.push_back(json_of(inspection));
  }
  const Json json = {{"whole", whole}, {"inspected", std::move(list)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string escaped(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const bool ascii = static_cast<unsigned char>(text[0]) < 0x80;
    std::size_t length = 1;
    if (ascii || valid_utf8_prefix(text.substr(0, 4)) == 0) {
      line += escaped_ascii(text[0]);
    } else {
      length = static_cast<std::size_t>(decode_utf8(text.data()).length);
      line += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return line;
}

}  // namespace flywheel
