#include "data/gguf_tokenizer.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/bpe_tokenizer.h"
#include "data/sentencepiece.h"
#include "data/utf8.h"

namespace flywheel {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ScoredPiece::Kind;

constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<Kind> read_kinds(const Gguf& file, std::size_t tokens) {
  static constexpr Kind kKinds[] = {Kind::Normal,      Kind::Unknown, Kind::Control,
                                    Kind::UserDefined, Kind::Unused,  Kind::Byte};
  const char* const key = "tokenizer.ggml.token_type";
  const std::vector<double> types = file.numbers(key);
  require(types.size() == tokens, ErrorKind::Data, "{}: {} has {} entries for {} tokens",
          file.source(), key, types.size(), tokens);
  std::vector<Kind> kinds;
  for (const double type : types) {
    require(type >= 1 && type <= 6, ErrorKind::Data, "{}: {}: {} is none of 1 to 6", file.source(),
            key, type);
    kinds.push_back(kKinds[static_cast<std::size_t>(type) - 1]);
  }
  return kinds;
}

std::vector<ScoredPiece> read_pieces(const Gguf& file, bool scored) {
  const std::vector<std::string_view> tokens = file.texts("tokenizer.ggml.tokens");
  const std::vector<Kind> kinds = read_kinds(file, tokens.size());
  std::vector<double> scores(tokens.size());
  if (scored) scores = file.numbers("tokenizer.ggml.scores");
  require(scores.size() == tokens.size(), ErrorKind::Data,
          "{}: tokenizer.ggml.scores has {} entries for {} tokens", file.source(), scores.size(),
          tokens.size());
  std::vector<ScoredPiece> pieces;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    require(!tokens[id].empty() && valid_utf8_prefix(tokens[id]) == tokens[id].size(),
            ErrorKind::Data, "{}: tokenizer.ggml.tokens: token {} is empty or not UTF-8",
            file.source(), id);
    pieces.push_back({std::string(tokens[id]), static_cast<float>(scores[id]), kinds[id]});
  }
  return pieces;
}

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json split_by(const char* pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", pattern}}},
             {"behavior", "Isolated"},
             {"invert", false}},
            byte_level(false)}}};
}

struct WordRules {
  Json normalizer = nullptr;
  Json pre_tokenizer;
  bool ignore_merges = false;
};

// The rules behind llama.cpp's names of them.
WordRules word_rules(const Gguf& file) {
  const std::string name = file.text("tokenizer.ggml.pre");
  if (name == "gpt-2") return {.pre_tokenizer = byte_level(true)};
  if (name == "qwen2") {
    return {.normalizer = {{"type", "NFC"}}, .pre_tokenizer = split_by(kQwen2Pattern)};
  }
  if (name == "llama-bpe") {
    return {.pre_tokenizer = split_by(kLlama3Pattern), .ignore_merges = true};
  }
  require(name == "smollm", ErrorKind::Data,
          "{}: tokenizer.ggml.pre: \"{}\" is not supported; expected \"gpt-2\", \"smollm\", "
          "\"qwen2\" or \"llama-bpe\"",
          file.source(), name);
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return {.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", {digits, byte_level(true)}}}};
}

// The token that belongs before every text; -1: none does.
std::int32_t begin_token(const Gguf& file, const std::vector<ScoredPiece>& pieces) {
  if (!gguf_begins_every_text(file)) return -1;
  const std::int64_t id = file.integer_or("tokenizer.ggml.bos_token_id", -1);
  require(id < static_cast<std::int64_t>(pieces.size()), ErrorKind::Data,
          "{}: tokenizer.ggml.bos_token_id: {} is none of the {} tokens", file.source(), id,
          pieces.size());
  return static_cast<std::int32_t>(std::max<std::int64_t>(id, -1));
}

std::string byte_level_json(const Gguf& file) {
  const std::vector<ScoredPiece> pieces = read_pieces(file, false);
  const std::int32_t begin = begin_token(file, pieces);
  const Json processor =
      begin < 0
          ? Json(nullptr)
          : Json::parse(begin_processor_json(pieces[static_cast<std::size_t>(begin)].text, begin));
  const WordRules rules = word_rules(file);
  Json added = Json::array();
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const Kind kind = pieces[id].kind;
    if (kind == Kind::Unused) continue;
    vocabulary.push_back({pieces[id].text, id});
    if (kind != Kind::Control && kind != Kind::UserDefined) continue;
    added.push_back({{"id", id},
                     {"content", pieces[id].text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", kind == Kind::Control}});
  }
  Json merges = Json::array();
  for (const std::string_view merge : file.texts("tokenizer.ggml.merges")) merges.push_back(merge);
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", rules.normalizer},
                     {"pre_tokenizer", rules.pre_tokenizer},
                     {"post_processor", processor},
                     {"decoder", byte_level(true)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", rules.ignore_merges},
                       {"vocab", vocabulary},
                       {"merges", merges}}}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string scored_json(const Gguf& file) {
  const std::vector<ScoredPiece> pieces = read_pieces(file, true);
  const bool space = file.boolean_or("tokenizer.ggml.add_space_prefix", true);
  return sentencepiece_json(pieces, space, begin_token(file, pieces));
}

}  // namespace

bool gguf_begins_every_text(const Gguf& file) {
  const bool usual = file.text("tokenizer.ggml.model") == "llama" ||
                     file.text_or("tokenizer.ggml.pre", "") == "llama-bpe";
  return file.boolean_or("tokenizer.ggml.add_bos_token", usual);
}

std::unique_ptr<Tokenizer> read_gguf_tokenizer(const Gguf& file) {
  const std::string model = file.text("tokenizer.ggml.model");
  require(model == "gpt2" || model == "llama", ErrorKind::Data,
          "{}: tokenizer.ggml.model: \"{}\" is not supported; expected \"gpt2\" or \"llama\"",
          file.source(), model);
  const std::string json = model == "gpt2" ? byte_level_json(file) : scored_json(file);
  return std::make_unique<BpeTokenizer>(parse_tokenizer_json(json, file.source()));
}

}  // namespace flywheel
