#include "data/bpe_train_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "data/bpe_trainer.h"
#include "data/input_files.h"
#include "data/utf8.h"
#include "data/vocabulary.h"

namespace flywheel {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void validate(const BpeTrainConfig& config) {
  require(!config.inputs.empty(), ErrorKind::Config,
          "no input: name text files, folders or patterns");
  for (const std::string& token : config.special_tokens) {
    require(!token.empty() && valid_utf8_prefix(token) == token.size(), ErrorKind::Config,
            "special token '{}': expected UTF-8 text that is not empty", token);
  }
  const std::int64_t least = 256 + static_cast<std::int64_t>(config.special_tokens.size());
  require(config.vocab_size >= least && config.vocab_size <= Vocabulary::kMaxId, ErrorKind::Config,
          "vocabulary of {} tokens; expected {} (256 bytes and {} special) to {}",
          config.vocab_size, least, least - 256, Vocabulary::kMaxId);
}

void prepare_output(const fs::path& path) {
  std::error_code error;
  require(!fs::is_directory(path, error), ErrorKind::Config,
          "{}: is a folder; --output names the file to write, as {}", path.string(),
          (path / "tokenizer.json").string());
  if (path.has_parent_path()) create_folders(path.parent_path());
}

Json added_tokens(const std::vector<std::string>& special_tokens) {
  Json list = Json::array();
  for (const std::string& token : special_tokens) {
    list.push_back({{"id", list.size()},
                    {"content", token},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}});
  }
  return list;
}

Json model(const LearnedBpe& learned) {
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();
  entries.reserve(learned.tokens.size());
  for (const std::string& token : learned.tokens) entries.push_back({token, entries.size()});
  Json merges = Json::array();
  for (const BpeMerge& merge : learned.merges) {
    merges.push_back(learned.tokens[static_cast<std::size_t>(merge.left)] + " " +
                     learned.tokens[static_cast<std::size_t>(merge.right)]);
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

std::string tokenizer_json(const LearnedBpe& learned, const WordRules& rules,
                           const std::vector<std::string>& special_tokens) {
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added_tokens(special_tokens)},
                     {"normalizer", Json::parse(rules.normalizer_json)},
                     {"pre_tokenizer", Json::parse(rules.pretokenizer_json)},
                     {"post_processor", nullptr},
                     {"decoder",
                      {{"type", "ByteLevel"},
                       {"add_prefix_space", true},
                       {"trim_offsets", true},
                       {"use_regex", true}}},
                     {"model", model(learned)}};
  return json.dump(1) + "\n";
}

}  // namespace

BpeTrainSummary train_bpe(const BpeTrainConfig& config,
                          const std::function<void(const BpeTrainProgress&)>& report) {
  validate(config);
  const std::vector<fs::path> files = list_text_files(config.inputs);
  const WordRules rules = load_word_rules(config.pretokenizer, config.special_tokens);
  prepare_output(config.output);

  BpeTrainProgress progress;
  const std::vector<WordCount> words = count_words(files, rules, config.text_key, config.threads,
                                                   [&](const WordCountProgress& counting) {
                                                     progress.counting = counting;
                                                     report(progress);
                                                   });
  require(!words.empty(), ErrorKind::Data, "{}: no text in the input", config.inputs.front());
  const LearnedBpe learned =
      learn_bpe(words, config.vocab_size, config.special_tokens, [&](std::int64_t tokens) {
        progress.tokens = tokens;
        report(progress);
      });
  write_file_atomically(config.output, tokenizer_json(learned, rules, config.special_tokens));
  return {progress.counting.bytes, static_cast<std::int64_t>(words.size()),
          static_cast<std::int64_t>(learned.tokens.size()),
          static_cast<std::int64_t>(learned.merges.size())};
}

}  // namespace flywheel
