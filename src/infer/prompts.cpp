#include "infer/prompts.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"
#include "data/utf8.h"

namespace flywheel {
namespace {

std::string prompt_of(const std::string& line, const std::string& where) {
  const Json json = parse_json(line, where);
  require(json.is_object() && json.contains("prompt") && json["prompt"].is_string(),
          ErrorKind::Data, "{}: expected an object with a string \"prompt\"", where);
  return json["prompt"].get<std::string>();
}

}  // namespace

std::vector<std::string> read_prompts(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  const bool json = extension == ".jsonl" || extension == ".ndjson";
  const std::string text = read_text_file(file);
  std::vector<std::string> prompts;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", file.string(), number + 1);
    require(valid_utf8_prefix(line) == line.size(), ErrorKind::Data, "{}: not UTF-8", where);
    prompts.push_back(json ? prompt_of(line, where) : line);
  }
  require(!prompts.empty(), ErrorKind::Data, "{}: no prompts in it", file.string());
  return prompts;
}

}  // namespace flywheel
