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
  options.custom_help("--model FOLDER [--prompt TEXT] [OPTION...]");
  auto option = options.add_options();
  option("model", "a checkpoint, or a run's folder for its latest", cxxopts::value<std::string>(),
         "FOLDER");
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

  const auto folder = checkpoint_folder(args["model"].as<std::string>());
  const ModelConfig config = read_model_config(folder);
  const auto tokenizer = load_tokenizer(folder, config);
  const auto prompt = args["prompt"].as<std::string>();
  std::vector<std::int32_t> ids;
  if (tokenizer->end_of_document() >= 0) ids.push_back(tokenizer->end_of_document());
  tokenizer->encode(prompt, ids);

  const std::int64_t context =
      std::min(config.max_positions, static_cast<std::int64_t>(ids.size()) + sampling.tokens);
  const auto backend = make_cpu_backend(args["threads"].as<int>());
  Transformer model(config, *backend,
                    {.max_tokens = context, .max_sequences = 1, .training = false});
  load_weights(model, *backend, folder);

  fmt::print("{}", prompt);
  const auto print_token = [&](std::int32_t token) {
    fmt::print("{}", tokenizer->decode(std::span(&token, 1)));
    std::fflush(stdout);
  };
  generate(model, ids, sampling, tokenizer->end_of_document(), context, print_token);
  fmt::print("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("generate", argc, argv, run);
}
