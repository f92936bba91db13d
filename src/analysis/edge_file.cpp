#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>

#include "analysis/edge_list.h"
#include "core/error.h"
#include "core/file_io.h"

namespace flywheel {
namespace {

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

bool is_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  return fault == std::errc() && end == text.data() + text.size();
}

struct Columns {
  bool header = false;
  std::size_t source = 0;
  std::size_t target = 1;
  std::size_t count = 0;
};

Columns columns_of(std::string_view first_line, const std::string& file) {
  const auto fields = fields_of(first_line);
  if (fields.size() >= 2 && is_integer(fields[0]) && is_integer(fields[1])) {
    return {.count = fields.size()};
  }
  Columns columns{.header = true, .count = fields.size()};
  const auto column = [&](std::string_view name) {
    const auto place = std::find(fields.begin(), fields.end(), name);
    require(place != fields.end(), ErrorKind::Data,
            "{}: no column '{}': expected the header source,target[,weight], or lines of integer "
            "ids; the first line is '{}'",
            file, name, first_line.substr(0, 80));
    return static_cast<std::size_t>(place - fields.begin());
  };
  columns.source = column("source");
  columns.target = column("target");
  return columns;
}

}  // namespace

EdgeList read_edges(const std::filesystem::path& file) {
  const std::string text = read_text_file(file);
  std::unordered_map<std::string, std::int64_t> nodes;
  const auto node = [&](std::string_view id) {
    return nodes.try_emplace(std::string(id), std::ssize(nodes)).first->second;
  };
  std::vector<std::pair<std::int64_t, std::int64_t>> edges;
  Columns columns;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number == 1) columns = columns_of(line, file.string());
    if (line.empty() || (number == 1 && columns.header)) continue;
    const auto fields = fields_of(line);
    require(fields.size() == columns.count && !fields[columns.source].empty() &&
                !fields[columns.target].empty(),
            ErrorKind::Data, "{}: line {}: expected {} columns with two ids, found '{}'",
            file.string(), number, columns.count, line.substr(0, 80));
    const std::int64_t source = node(fields[columns.source]);
    edges.emplace_back(source, node(fields[columns.target]));
  }
  require(!edges.empty(), ErrorKind::Data, "{}: no edges", file.string());
  return simplified(std::ssize(nodes), std::move(edges));
}

}  // namespace flywheel
