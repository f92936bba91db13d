#include "eval/prefix_token.h"

#include <vector>

#include "core/error.h"
#include "core/json_fields.h"

namespace flywheel {

std::int32_t prefix_token(const std::filesystem::path& folder, const Tokenizer& tokenizer) {
  const auto file = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(file)) return tokenizer.end_of_document();
  const Json config = read_json_file(file);
  for (const char* key : {"bos_token", "eos_token"}) {
    const auto entry = config.find(key);
    if (entry == config.end() || entry->is_null()) continue;
    const Json& text = entry->is_object() ? entry->at("content") : *entry;
    require(text.is_string(), ErrorKind::Data, "{}: {} is not a string", file.string(), key);
    std::vector<std::int32_t> ids;
    tokenizer.encode(text.get<std::string>(), ids);
    require(ids.size() == 1, ErrorKind::Data, "{}: {} \"{}\" is no token of the vocabulary",
            file.string(), key, text.get<std::string>());
    return ids[0];
  }
  return tokenizer.end_of_document();
}

}  // namespace flywheel
