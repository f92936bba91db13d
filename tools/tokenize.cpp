// tokenize: turns text files into token files for training and validation.

#include <fmt/format.h>

#include <cxxopts.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/tokenize_job.h"
#include "data/tokenize_report.h"
#include "tools/parse_options.h"
#include "tools/program.h"
#include "tools/progress_line.h"
#include "tools/train_tokenizer.h"

namespace {

using namespace flywheel;

constexpr const char* kExamples = R"(
Examples:
  A folder of text files (.txt, .text, .md, .jsonl, .ndjson), bytes as tokens:
    tokenize --tokenizer byte --output data/mine my_texts
  JSONL with GPT-2's tokenizer (a folder with encoder.json and vocab.bpe):
    tokenize --tokenizer gpt2 --text-key content --output data/web 'crawl/*.jsonl'
  One text file whose documents are parted by a line, without validation:
    tokenize --tokenizer tokenizer.json --document-separator '<|endoftext|>' \
      --validation-fraction 0 --output data/stories stories.txt
  A tokenizer of your own, trained on your text (tokenize train --help):
    tokenize train --vocab-size 32768 --output mine/tokenizer.json my_texts
)";

cxxopts::Options make_options() {
  const TokenizeConfig defaults;
  cxxopts::Options options("tokenize",
                           "Turns text into token files (.bin) for training and validation.");
  options.positional_help("FILES|FOLDERS|PATTERNS...");
  auto option = options.add_options();
  option("tokenizer",
         "byte, a tokenizer.json, or a folder with one or with encoder.json and vocab.bpe",
         cxxopts::value<std::string>(), "NAME|PATH");
  option("output", "folder for train_*.bin and validation_*.bin", cxxopts::value<std::string>(),
         "DIR");
  option("text-key", "key of a document's text in JSONL",
         cxxopts::value<std::string>()->default_value(defaults.text_key), "KEY");
  option(
      "document-separator",
      "cut text files into documents at lines equal to LINE, or at blank lines if LINE is 'blank'; "
      "otherwise a file is a document",
      cxxopts::value<std::string>()->default_value(""), "LINE");
  option("validation-fraction",
         "share of the documents for validation, chosen by a hash of their text",
         cxxopts::value<double>()->default_value("0.01"), "F");
  option("seed", "seed of that choice", cxxopts::value<std::uint64_t>()->default_value("0"), "N");
  option("shard-tokens", "tokens a file",
         cxxopts::value<std::int64_t>()->default_value(std::to_string(defaults.shard_tokens)), "N");
  option("threads", "threads; 0: one a core", cxxopts::value<int>()->default_value("0"), "N");
  option("overwrite", "replace the token files in DIR");
  option("help", "print this");
  option("input", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional("input");
  return options;
}

TokenizeConfig read_config(const cxxopts::ParseResult& args) {
  require(args.count("input") != 0, ErrorKind::Config,
          "no input: name text files, folders or patterns");
  require(args.count("output") != 0, ErrorKind::Config, "--output is missing: name a folder");
  require(args.count("tokenizer") != 0, ErrorKind::Config,
          "--tokenizer is missing: byte, or a path");
  TokenizeConfig config;
  config.inputs = args["input"].as<std::vector<std::string>>();
  config.output = args["output"].as<std::string>();
  config.text_key = args["text-key"].as<std::string>();
  config.document_separator = args["document-separator"].as<std::string>();
  config.validation_fraction = args["validation-fraction"].as<double>();
  config.seed = args["seed"].as<std::uint64_t>();
  config.shard_tokens = args["shard-tokens"].as<std::int64_t>();
  config.threads = args["threads"].as<int>();
  config.overwrite = args.count("overwrite") != 0;
  return config;
}

int run(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "train") return train_tokenizer(argc - 1, argv + 1);
  cxxopts::Options options = make_options();
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}{}", options.help(), kExamples);
    return 0;
  }
  const TokenizeConfig config = read_config(args);
  const auto tokenizer = Tokenizer::load(args["tokenizer"].as<std::string>());
  ProgressLine line;
  const auto report = [&](const TokenizeProgress& progress) {
    line.show([&] { return progress_text(progress, line.seconds()); });
  };
  const TokenizeSummary summary = tokenize_files(*tokenizer, config, report);
  line.clear();

  fmt::print("{}", summary_text(summary, line.seconds()));
  if (summary.validation.documents == 0 && config.validation_fraction > 0) {
    fmt::print(
        "No document fell to validation: raise --validation-fraction or cut the text into more\n"
        "documents with --document-separator.\n");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("tokenize", argc, argv, run);
}
