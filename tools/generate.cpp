// generate: continues prompts with a trained model.

#include <fmt/format.h>

#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "cpu/cpu_backend.h"
#include "infer/generator.h"
#include "infer/load_model.h"
#include "infer/prompts.h"
#include "tools/attention_flags.h"
#include "tools/generate_output.h"
#include "tools/model_flag.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace {

using namespace flywheel;

constexpr const char* kExamples = R"(
Examples:
  One text, as it comes:
    generate --model runs/mine --prompt "Once upon a time" --tokens 200
  Three continuations of each line of a file, as JSON lines:
    generate --model runs/mine --prompts lines.txt --num-samples 3 --stop "\n\n" --json
)";

cxxopts::Options make_options() {
  const GenerateOptions defaults;
  const auto number = [](double value) { return fmt::format("{}", value); };
  cxxopts::Options options("generate", "Continues prompts with a trained model.");
  options.custom_help("--model PATH [--prompt TEXT | --prompts FILE] [OPTION...]");
  auto option = options.add_options();
  option("model", kModelFlagHelp, cxxopts::value<std::string>(), "PATH");
  option("weights", kWeightsFlagHelp, cxxopts::value<std::string>()->default_value("file"), "TYPE");
  option("prompt", "text to continue, may be repeated; without one, begin a document",
         cxxopts::value<std::vector<std::string>>(), "TEXT");
  option("prompts", "a prompt a line; in .jsonl the key \"prompt\" of each object",
         cxxopts::value<std::string>(), "FILE");
  option("num-samples", "continuations of each prompt",
         cxxopts::value<std::int64_t>()->default_value("1"), "N");
  option("tokens", "at most so many tokens",
         cxxopts::value<std::int64_t>()->default_value(std::to_string(defaults.tokens)), "N");
  option("stop", "end before this text, may be repeated; \\n and \\t are line break and tab",
         cxxopts::value<std::vector<std::string>>(), "TEXT");
  option("temperature", "0 takes the most likely token",
         cxxopts::value<double>()->default_value(number(defaults.sampling.temperature)), "T");
  option("top-k", "draw among the K most likely tokens; 0: among all",
         cxxopts::value<std::int64_t>()->default_value("0"), "K");
  option("top-p", "draw among the most likely tokens of this joint probability",
         cxxopts::value<double>()->default_value("1"), "P");
  option("min-p", "draw among tokens at least this likely beside the most likely one",
         cxxopts::value<double>()->default_value("0"), "P");
  option("repetition-penalty", "above 1: tokens seen before get less likely",
         cxxopts::value<double>()->default_value("1"), "R");
  option("seed", "seed of the draws", cxxopts::value<std::uint64_t>()->default_value("0"), "N");
  option("decode", "keys that new tokens see: full, or window (the layers' windows)",
         cxxopts::value<std::string>()->default_value("full"), "full|window");
  option("batch", "texts continued at a time", cxxopts::value<std::int64_t>()->default_value("8"),
         "N");
  option("json", "print one JSON object a text");
  option("threads", "threads; 0: one a core", cxxopts::value<int>()->default_value("0"), "N");
  option("help", "print this");
  add_attention_flags(options);
  return options;
}

DecodeAttention decode_attention(const std::string& name) {
  for (const auto& [known, value] : enum_names(DecodeAttention::Full)) {
    if (name == known) return value;
  }
  fail(ErrorKind::Config, "--decode must be full or window, not '{}'", name);
}

GenerateOptions read_options(const cxxopts::ParseResult& args) {
  GenerateOptions options;
  options.sampling = {.repetition_penalty = args["repetition-penalty"].as<double>(),
                      .temperature = args["temperature"].as<double>(),
                      .top_k = args["top-k"].as<std::int64_t>(),
                      .top_p = args["top-p"].as<double>(),
                      .min_p = args["min-p"].as<double>(),
                      .seed = args["seed"].as<std::uint64_t>()};
  options.tokens = args["tokens"].as<std::int64_t>();
  options.attention = decode_attention(args["decode"].as<std::string>());
  check_sample_options(options.sampling);
  require(options.tokens >= 0, ErrorKind::Config, "--tokens must be 0 or more, not {}",
          options.tokens);
  for (const char* name : {"num-samples", "batch"}) {
    const auto value = args[name].as<std::int64_t>();
    require(value >= 1 && value <= 1'000'000, ErrorKind::Config,
            "--{} must be 1 to 1000000, not {}", name, value);
  }
  return options;
}

std::vector<std::string> read_texts(const cxxopts::ParseResult& args) {
  std::vector<std::string> texts;
  if (args.count("prompt") != 0) texts = args["prompt"].as<std::vector<std::string>>();
  if (args.count("prompts") != 0) {
    for (std::string& text : read_prompts(args["prompts"].as<std::string>())) {
      texts.push_back(std::move(text));
    }
  }
  if (texts.empty()) texts.emplace_back();
  return texts;
}

int run(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}{}", options.help(), kExamples);
    return 0;
  }
  require(args.count("model") != 0, ErrorKind::Config,
          "--model is missing: name a checkpoint or a run's folder");
  GenerateOptions generation = read_options(args);
  std::vector<std::string> stops;
  if (args.count("stop") != 0) stops = args["stop"].as<std::vector<std::string>>();

  OpenedModel opened = open_model(args["model"].as<std::string>());
  opened.config = with_attention(opened.config, attention_flags(args));
  opened.config.attention.per_sequence = false;  // a text does not depend on its neighbours
  generation.stop_tokens = opened.special.end;
  GenerateOutput output(*opened.tokenizer, opened.special, read_texts(args),
                        args["num-samples"].as<std::int64_t>(), unescaped(stops),
                        args.count("json") != 0);
  TransformerLimits limits = generation_limits(opened.config, output.prompt_lengths(),
                                               generation.tokens, args["batch"].as<std::int64_t>());
  limits.weights = weights_type(opened.weights, opened.config, args["weights"].as<std::string>());
  const auto backend = make_cpu_backend(args["threads"].as<int>());
  const auto model = load_transformer(opened.weights, opened.config, *backend, limits);
  output.begin();
  generate(
      *model, limits, output.requests(), generation,
      [&](std::size_t request, std::int32_t token) { return output.add(request, token); },
      [&](std::size_t request, const Continuation& c) { output.finish(request, c); });
  output.end();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("generate", argc, argv, run);
}
