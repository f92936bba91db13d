#include "eval/tasks/documents.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/file_io.h"
#include "data/utf8.h"

namespace flywheel {
namespace {

Item make_item(const std::filesystem::path& path, const char* unit, std::size_t number,
               const std::function<Item()>& make) {
  try {
    return make();
  } catch (const std::exception& error) {
    fail(ErrorKind::Data, "{}: {} {}: {}", path.string(), unit, number, error.what());
  }
}

}  // namespace

std::vector<Item> read_json_items(const std::filesystem::path& path,
                                  const std::function<Item(const Json&)>& make) {
  const std::string text = read_utf8_file(path);
  std::vector<Item> items;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') {
    for (const Json& document : parse_json(text, path.string())) {
      items.push_back(make_item(path, "document", items.size(), [&] { return make(document); }));
    }
  } else {
    std::size_t number = 0;
    for (const std::string& line : lines_of(text)) {
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      items.push_back(make_item(path, "line", number, [&] { return make(Json::parse(line)); }));
    }
  }
  require(!items.empty(), ErrorKind::Data, "{}: no documents in it", path.string());
  return items;
}

std::string read_utf8_file(const std::filesystem::path& path) {
  return replace_invalid_utf8(read_text_file(path));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string dump(const Json& document) {
  return document.dump();
}

std::string text_of(const Json& document, const char* field) {
  return document.at(field).get<std::string>();
}

std::int64_t place_of(const std::string& label, const std::vector<std::string>& labels) {
  const auto found = std::find(labels.begin(), labels.end(), label);
  require(found != labels.end(), ErrorKind::Data, "the answer \"{}\" is none of {}", label,
          fmt::join(labels, ", "));
  return found - labels.begin();
}

}  // namespace flywheel
