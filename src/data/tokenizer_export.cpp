#include "data/tokenizer_export.h"

#include <nlohmann/json.hpp>

#include "core/file_io.h"
#include "data/byte_level.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kEndOfText = "<|endoftext|>";

// A byte-level tokenizer.json with GPT-2's rules.
Json byte_level_json(const Json& vocabulary, const Json& merges) {
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json added = {{"id", vocabulary.at(kEndOfText)},
                      {"content", kEndOfText},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array({added})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

Json bytes_json() {
  Json vocabulary = Json::object();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    vocabulary.push_back({byte_alphabet()[byte], byte});
  }
  vocabulary.push_back({kEndOfText, 256});
  return byte_level_json(vocabulary, Json::array());
}

// Of files that Tokenizer::load() has read before.
Json gpt2_json(const fs::path& folder) {
  Json merges = Json::array();
  const std::string lines = read_text_file(folder / "vocab.bpe");
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string line = lines.substr(begin, end - begin);
    if (!line.empty() && !(begin == 0 && line.starts_with("#version"))) merges.push_back(line);
    begin = end + 1;
  }
  return byte_level_json(Json::parse(read_text_file(folder / "encoder.json")), merges);
}

Json token_text(const Tokenizer& tokenizer, std::int32_t id) {
  return id < 0 ? Json(nullptr) : Json(tokenizer.decode(std::span(&id, 1)));
}

}  // namespace

void write_tokenizer_files(const Tokenizer& tokenizer, const fs::path& folder,
                           const TokenizerMarks& marks) {
  tokenizer.save(folder);
  if (!fs::exists(folder / "tokenizer.json")) {
    const Json json = fs::exists(folder / "encoder.json") ? gpt2_json(folder) : bytes_json();
    write_file_atomically(folder / "tokenizer.json", json.dump() + "\n");
  }
  const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"add_bos_token", marks.begin_every_prompt},
                       {"bos_token", token_text(tokenizer, marks.begin)},
                       {"eos_token", token_text(tokenizer, marks.end)},
                       {"model_max_length", marks.max_length},
                       {"clean_up_tokenization_spaces", false}};
  write_file_atomically(folder / "tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace flywheel
