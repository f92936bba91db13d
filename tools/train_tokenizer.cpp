#include "tools/train_tokenizer.h"

#include <fmt/format.h>

#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/bpe_train_job.h"
#include "tools/parse_options.h"
#include "tools/progress_line.h"

namespace flywheel {

namespace {

constexpr const char* kExamples = R"(
Examples:
  A vocabulary of 32768 from a folder of text files (.txt, .text, .md, .jsonl, .ndjson):
    tokenize train --vocab-size 32768 --output mine/tokenizer.json my_texts
  JSONL, split and normalized as another tokenizer does, with special tokens for chat:
    tokenize train --vocab-size 16384 --output mine/tokenizer.json --text-key content \
      --pretokenizer qwen3/tokenizer.json --special-token '<|endoftext|>' \
      --special-token '<|im_start|>' --special-token '<|im_end|>' 'crawl/*.jsonl'
)";

cxxopts::Options make_options() {
  const BpeTrainConfig defaults;
  cxxopts::Options options("tokenize train",
                           "Trains a byte-level BPE tokenizer and writes a tokenizer.json.");
  options.positional_help("FILES|FOLDERS|PATTERNS...");
  auto option = options.add_options();
  option("vocab-size", "tokens, with the 256 bytes and the special ones",
         cxxopts::value<std::int64_t>(), "N");
  option("output", "the tokenizer.json to write; replaced if it exists",
         cxxopts::value<std::string>(), "FILE");
  option("pretokenizer", "gpt2, or a tokenizer.json whose normalizer and pre_tokenizer to take",
         cxxopts::value<std::string>()->default_value(defaults.pretokenizer), "gpt2|FILE");
  option("special-token", "may be repeated; ids count from 0 in this order",
         cxxopts::value<std::vector<std::string>>()->default_value("<|endoftext|>"), "TEXT");
  option("text-key", "key of a document's text in JSONL",
         cxxopts::value<std::string>()->default_value(defaults.text_key), "KEY");
  option("threads", "threads that count words; 0: one a core",
         cxxopts::value<int>()->default_value("0"), "N");
  option("help", "print this");
  option("input", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional("input");
  return options;
}

BpeTrainConfig read_config(const cxxopts::ParseResult& args) {
  require(args.count("vocab-size") != 0, ErrorKind::Config,
          "--vocab-size is missing: a number of tokens");
  require(args.count("output") != 0, ErrorKind::Config,
          "--output is missing: name the tokenizer.json to write");
  BpeTrainConfig config;
  if (args.count("input") != 0) config.inputs = args["input"].as<std::vector<std::string>>();
  config.output = args["output"].as<std::string>();
  config.vocab_size = args["vocab-size"].as<std::int64_t>();
  config.pretokenizer = args["pretokenizer"].as<std::string>();
  config.special_tokens = args["special-token"].as<std::vector<std::string>>();
  config.text_key = args["text-key"].as<std::string>();
  config.threads = args["threads"].as<int>();
  return config;
}

std::string progress_text(const BpeTrainProgress& progress, const BpeTrainConfig& config,
                          double seconds) {
  const double megabytes = static_cast<double>(progress.counting.bytes) / 1e6;
  if (progress.tokens > 0)
    return fmt::format("{} of {} tokens", progress.tokens, config.vocab_size);
  return fmt::format("{:.0f} of {:.0f} MB, {} distinct words, {:.1f} MB/s", megabytes,
                     static_cast<double>(progress.counting.total_bytes) / 1e6,
                     progress.counting.words, megabytes / seconds);
}

}  // namespace

int train_tokenizer(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}{}", options.help(), kExamples);
    return 0;
  }
  const BpeTrainConfig config = read_config(args);
  ProgressLine line;
  const BpeTrainSummary summary = train_bpe(config, [&](const BpeTrainProgress& progress) {
    line.show([&] { return progress_text(progress, config, line.seconds()); });
  });
  line.clear();

  fmt::print("{}: {} tokens, {} merges; {:.1f} MB of text, {} distinct words, {:.1f} s\n",
             config.output.string(), summary.tokens, summary.merges,
             static_cast<double>(summary.bytes) / 1e6, summary.words, line.seconds());
  if (summary.tokens < config.vocab_size) {
    fmt::print("Stopped before {} tokens: every word of the text is one token by now.\n",
               config.vocab_size);
  }
  return 0;
}

}  // namespace flywheel
