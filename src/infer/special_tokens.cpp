#include "infer/special_tokens.h"

#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"
#include "model/huggingface_import.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

std::vector<std::int32_t> ids_of(const fs::path& folder, const std::string& key) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const fs::path file = folder / name;
    if (!fs::exists(file)) continue;
    auto ids = token_ids(read_text_file(file), key, file.string());
    if (!ids.empty()) return ids;
  }
  return {};
}

// tokenizer_config.json's add_bos_token. A post-processor of tokenizer.json is not looked at.
bool begins_every_prompt(const fs::path& folder) {
  const fs::path config = folder / "tokenizer_config.json";
  if (fs::exists(config)) {
    const Json json = read_json_file(config);
    if (json.is_object() && json.contains("add_bos_token")) return json["add_bos_token"] == true;
  }
  return false;
}

}  // namespace

SpecialTokens document_marks(const Tokenizer& tokenizer) {
  const std::int32_t id = tokenizer.end_of_document();
  if (id < 0) return {};
  return {.begin = id, .begin_every_prompt = true, .end = {id}};
}

SpecialTokens read_special_tokens(const fs::path& folder, const Tokenizer& tokenizer) {
  if (fs::exists(folder / "state.json")) return document_marks(tokenizer);
  const auto begin = ids_of(folder, "bos_token_id");
  return {.begin = begin.empty() ? tokenizer.end_of_document() : begin.front(),
          .begin_every_prompt = begins_every_prompt(folder),
          .end = ids_of(folder, "eos_token_id")};
}

}  // namespace flywheel
