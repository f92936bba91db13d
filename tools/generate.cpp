// generate: continues a prompt with a trained model.

#include <fmt/format.h>

#include <cstdio>
#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "cpu/cpu_backend.h"
#include "infer/load_model.h"
#include "infer/sample.h"
#include "tools/program.h"

namespace {

using namespace flywheel;

cxxopts::Options make_options() {
  const SampleOptions defaults;
  cxxopts::Options options("generate",
                           "Continues a prompt. Every token recomputes the whole text: there is no "
                           "key-value cache yet, so long texts are slow.");
  options.custom_help("--model PATH [--prompt TEXT] [OPTION...]");
  auto option = options.add_options();
  option("model",
         "a run's folder, a checkpoint, a Hugging Face folder, a .gguf or llama2.c .bin file",
         cxxopts::value<std::string>(), "PATH");
  option("prompt", "text to continue; empty: begin a document",
         cxxopts::value<std::string>()->default_value(""), "TEXT");
  option("tokens", "at most so many tokens",
         cxxopts::value<std::int64_t>()->default_value(std::to_string(defaults.tokens)), "N");
  option("temperature", "0 takes the most likely token",
         cxxopts::value<double>()->default_value(fmt::format("{}", defaults.temperature)), "T");
  option("top-k", "draw among the K most likely tokens; 0: among all",
         cxxopts::value<std::int64_t>()->default_value("0"), "K");
  option("seed", "seed of the draws", cxxopts::value<std::uint64_t>()->default_value("0"), "N");
  option("threads", "threads; 0: one a core", cxxopts::value<int>()->default_value("0"), "N");
  option("help", "print this");
  return options;
}

int run(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const auto args = options.parse(argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}\n", options.help());
    return 0;
  }
  require(args.count("model") != 0, ErrorKind::Config,
          "--model is missing: name a checkpoint or a run's folder");
  const SampleOptions sampling{.tokens = args["tokens"].as<std::int64_t>(),
                               .temperature = args["temperature"].as<double>(),
                               .top_k = args["top-k"].as<std::int64_t>(),
                               .seed = args["seed"].as<std::uint64_t>()};

  const OpenedModel opened = open_model(args["model"].as<std::string>());
  const Tokenizer& tokenizer = *opened.tokenizer;
  const SpecialTokens& special = opened.special;
  const auto prompt = args["prompt"].as<std::string>();
  std::vector<std::int32_t> ids;
  if (special.begin >= 0 && (special.begin_every_prompt || prompt.empty())) {
    ids.push_back(special.begin);
  }
  tokenizer.encode(prompt, ids);

  const std::int64_t context = std::min(opened.config.max_positions,
                                        static_cast<std::int64_t>(ids.size()) + sampling.tokens);
  const auto backend = make_cpu_backend(args["threads"].as<int>());
  const auto model =
      load_transformer(opened.weights, opened.config, *backend,
                       {.max_tokens = context, .max_sequences = 1, .training = false});

  fmt::print("{}", prompt);
  std::int32_t last = ids.empty() ? -1 : ids.back();
  const auto print_token = [&](std::int32_t token) {
    const std::int32_t pair[] = {last, token};
    fmt::print("{}", tokenizer.decode(pair).substr(tokenizer.decode(std::span(pair, 1)).size()));
    std::fflush(stdout);
    last = token;
  };
  generate(*model, ids, sampling, special.end.empty() ? -1 : special.end.front(), context,
           print_token);
  fmt::print("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("generate", argc, argv, run);
}
