#include <utility>

#include "core/file_io.h"
#include "data/bpe_merges.h"
#include "data/bpe_tokenizer.h"
#include "data/json_node.h"
#include "data/tokenizer_json_parts.h"

namespace flywheel {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxFileBytes = 256u << 20;

void check_type(const JsonNode& model) {
  const std::string type = model["type"].string_or("BPE");
  require(type == "BPE", ErrorKind::Data, "{}.type: '{}' is not supported; only BPE is",
          model.where(), type);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonNode node = model[key];
    require(node.string_or("").empty(), ErrorKind::Data,
            "{}: not supported; expected null or an empty string", node.where());
  }
  const JsonNode dropout = model["dropout"];
  require(dropout.is_null() || dropout.value() == 0, ErrorKind::Data,
          "{}: not supported; expected null or 0", dropout.where());
}

void read_vocabulary(const JsonNode& node, Vocabulary& vocabulary) {
  if (!node.value().is_object()) node.refuse("an object");
  for (const auto& [token, id] : node.value().items()) {
    if (!id.is_number_integer()) node[token].refuse("an integer");
    vocabulary.add(token, JsonNode(id, node.where()).integer());
  }
}

std::vector<BpeMerge> read_merges(const JsonNode& node, const Vocabulary& vocabulary) {
  if (!node.value().is_array()) node.refuse("an array");
  BpeMergeReader reader(vocabulary);
  for (const nlohmann::json& merge : node.value()) {
    if (merge.is_string()) {
      reader.add_line(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      reader.add(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    } else {
      JsonNode(merge, node.where()).refuse("a string or a pair of strings");
    }
  }
  return reader.take();
}

std::int32_t read_unknown(const JsonNode& node, const Vocabulary& vocabulary) {
  if (node.is_null()) return -1;
  const std::int32_t id = vocabulary.find(node.string());
  if (id < 0) node.refuse("a token of the vocabulary");
  return id;
}

BpeRules read_rules(const JsonNode& model, const Vocabulary& vocabulary) {
  BpeRules rules;
  rules.merges = read_merges(model["merges"], vocabulary);
  rules.unknown = read_unknown(model["unk_token"], vocabulary);
  rules.fuse_unknown = model["fuse_unk"].boolean_or(false);
  rules.ignore_merges = model["ignore_merges"].boolean_or(false);
  rules.byte_fallback = model["byte_fallback"].boolean_or(false);
  return rules;
}

std::vector<AddedToken> read_added_tokens(const JsonNode& node) {
  std::vector<AddedToken> tokens;
  if (node.is_null()) return tokens;
  for (const JsonNode& item : node.items()) {
    const std::int64_t id = item["id"].integer();
    if (id < 0 || id > Vocabulary::kMaxId) item["id"].refuse("0 to 16777216");
    AddedToken token;
    token.content = item["content"].string();
    token.id = static_cast<std::int32_t>(id);
    token.single_word = item["single_word"].boolean_or(false);
    token.lstrip = item["lstrip"].boolean_or(false);
    token.rstrip = item["rstrip"].boolean_or(false);
    token.special = item["special"].boolean_or(false);
    token.normalized = item["normalized"].boolean_or(!token.special);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// The steps of a decoder, be it one or a sequence.
std::vector<JsonNode> decoder_steps(const JsonNode& node) {
  if (node.is_null()) return {};
  if (node["type"].string() == "Sequence") return node["decoders"].items();
  return {node};
}

void check_byte_level_decoder(const JsonNode& node) {
  for (const JsonNode& step : decoder_steps(node)) {
    const std::string& type = step["type"].string();
    require(type == "ByteLevel", ErrorKind::Data,
            "{}: decoder '{}' is not supported; only ByteLevel is", step.where(), type);
  }
}

// Whether the decoder drops the space before the text. Its other steps are what the spelling of the
// tokens says.
bool read_sentencepiece_decoder(const JsonNode& node) {
  bool strips = false;
  for (const JsonNode& step : decoder_steps(node)) {
    const std::string& type = step["type"].string();
    strips = strips || type == "Strip";
    require(
        type == "Replace" || type == "ByteFallback" || type == "Fuse" || type == "Strip",
        ErrorKind::Data,
        "{}: decoder '{}' is not supported; supported are Replace, ByteFallback, Fuse and Strip",
        step.where(), type);
  }
  return strips;
}

}  // namespace

BpeTokenizerParts parse_tokenizer_json(std::string content, const std::string& source) {
  const nlohmann::json json = parse_json(content, source);
  const JsonNode root(json, source + ": tokenizer");
  const JsonNode model = root["model"];
  check_type(model);
  const bool sentencepiece = model["byte_fallback"].boolean_or(false);
  const auto spelling = sentencepiece ? TokenSpelling::SentencePiece : TokenSpelling::ByteLevel;
  BpeTokenizerParts parts{Vocabulary(source, spelling), {}, nullptr, nullptr, {}, {}};
  read_vocabulary(model["vocab"], parts.vocabulary);
  parts.rules = read_rules(model, parts.vocabulary);
  if (sentencepiece) {
    parts.strip_space = read_sentencepiece_decoder(root["decoder"]);
    if (!root["pre_tokenizer"].is_null()) {
      root["pre_tokenizer"].refuse("null in a tokenizer with byte_fallback");
    }
    parts.pretokenizer = make_pretokenizer_sequence({});
  } else {
    check_byte_level_decoder(root["decoder"]);
    parts.pretokenizer = read_byte_level_pretokenizer(root["pre_tokenizer"]);
  }
  parts.normalizer = read_normalizer(root["normalizer"]);
  parts.added_tokens = read_added_tokens(root["added_tokens"]);
  parts.files.push_back({"tokenizer.json", std::move(content)});
  return parts;
}

BpeTokenizerParts read_tokenizer_json(const fs::path& path) {
  require(fs::file_size(path) <= kMaxFileBytes, ErrorKind::Data, "{}: larger than 256 MiB",
          path.string());
  return parse_tokenizer_json(read_text_file(path), path.string());
}

}  // namespace flywheel
