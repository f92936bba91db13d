// recall: does a model still know what a text told it, by distance?

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cxxopts.hpp>
#include <string>

#include "core/error.h"
#include "cpu/cpu_backend.h"
#include "eval/recall.h"
#include "infer/load_model.h"
#include "tools/model_flag.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace {

using namespace flywheel;

cxxopts::Options make_options() {
  cxxopts::Options options("recall",
                           "Perplexity and recall accuracy of a model on held-out texts. A word is "
                           "recalled when it is the most likely one of the whole vocabulary.");
  options.custom_help("--model PATH --texts FILE [OPTION...]");
  auto option = options.add_options();
  option("model", kModelFlagHelp, cxxopts::value<std::string>(), "PATH");
  option("texts", "recall.jsonl, as make_corpus writes it", cxxopts::value<std::string>(), "FILE");
  option("seed", "seed of the attention permutations",
         cxxopts::value<std::uint64_t>()->default_value("0"), "N");
  option("threads", "threads; 0: one a core", cxxopts::value<int>()->default_value("0"), "N");
  option("help", "print this");
  return options;
}

void print_result(const RecallResult& result, double mean_visible_keys) {
  fmt::print("{} texts, {} tokens: perplexity {:.3f}\n", result.texts, result.tokens,
             std::exp(result.loss));
  fmt::print("mean visible keys of a query, over layers: {:.1f}\n", mean_visible_keys);
  fmt::print("{:>14}  {:>6}  {:>8}\n", "gap (words)", "asked", "recalled");
  std::int64_t begin = 1;
  for (const RecallBucket& bucket : result.by_gap) {
    const bool last = &bucket == &result.by_gap.back();
    const std::string range =
        last ? fmt::format("{} and more", begin) : fmt::format("{} to {}", begin, bucket.max_gap);
    if (bucket.spots > 0) {
      fmt::print("{:>14}  {:>6}  {:>7.1f}%\n", range, bucket.spots, 100 * bucket.accuracy());
    }
    begin = bucket.max_gap + 1;
  }
  fmt::print("{:>14}  {:>6}  {:>7.1f}%\n", "all", result.all.spots, 100 * result.all.accuracy());
}

int run(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}\n", options.help());
    return 0;
  }
  require(args.count("model") != 0 && args.count("texts") != 0, ErrorKind::Config,
          "--model and --texts are needed; see recall --help");
  const auto texts = read_recall_file(args["texts"].as<std::string>());
  const OpenedModel opened = open_model(args["model"].as<std::string>());
  ModelConfig config = opened.config;
  config.attention.per_sequence = false;  // as evaluate does
  const TransformerLimits limits{
      .max_tokens = std::clamp<std::int64_t>(config.max_positions, 4096, 16384),
      .max_sequences = 64,
      .training = false};
  const auto backend = make_cpu_backend(args["threads"].as<int>());
  const auto model = load_transformer(opened.weights, config, *backend, limits);
  Scorer scorer(*model, limits, args["seed"].as<std::uint64_t>());
  const RecallResult result = evaluate_recall(scorer, *opened.tokenizer, texts);
  const std::int64_t mean_length = result.tokens / result.texts;
  print_result(result, Transformer::cost(config, mean_length).mean_visible_keys);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("recall", argc, argv, run);
}
