#include "data/word_rules.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "data/bpe_tokenizer.h"
#include "data/json_node.h"
#include "data/tokenizer_json_parts.h"

namespace flywheel {

namespace {

namespace fs = std::filesystem;

constexpr const char* kGpt2Rules =
    R"({"add_prefix_space":false,"trim_offsets":true,"type":"ByteLevel","use_regex":true})";

WordRules gpt2_rules() {
  WordRules rules;
  const nlohmann::json json = parse_json(kGpt2Rules, "gpt2");
  rules.pretokenizer = read_byte_level_pretokenizer(JsonNode(json, "gpt2"));
  rules.normalizer_json = "null";
  rules.pretokenizer_json = kGpt2Rules;
  return rules;
}

WordRules rules_of_file(const fs::path& path) {
  BpeTokenizerParts parts = read_tokenizer_json(path);
  const nlohmann::json json = parse_json(parts.files.front().content, path.string());
  WordRules rules;
  rules.normalizer = std::move(parts.normalizer);
  rules.pretokenizer = std::move(parts.pretokenizer);
  rules.normalizer_json = json.value("normalizer", nlohmann::json()).dump();
  rules.pretokenizer_json = json.at("pre_tokenizer").dump();
  return rules;
}

}  // namespace

WordRules load_word_rules(const std::string& name, const std::vector<std::string>& special_tokens) {
  std::error_code unreachable;
  require(name == "gpt2" || fs::is_regular_file(name, unreachable), ErrorKind::Data,
          "{}: no pre-tokenizer; expected 'gpt2' or a tokenizer.json", name);
  WordRules rules = name == "gpt2" ? gpt2_rules() : rules_of_file(name);
  for (const std::string& content : special_tokens) {
    AddedToken token;
    token.content = content;
    rules.special_tokens.add(token, content);
  }
  return rules;
}

}  // namespace flywheel
