#include "tools/evaluate_flags.h"

#include <cstdlib>

#include "core/error.h"
#include "tools/attention_flags.h"
#include "tools/model_flag.h"

namespace flywheel {

cxxopts::Options evaluate_flags() {
  cxxopts::Options options(
      "evaluate", "Scores a model on benchmarks with lm-evaluation-harness's prompts and metrics.");
  options.custom_help("--model PATH --tasks LIST [OPTION...]");
  const auto number = [](const char* value) {
    return cxxopts::value<std::int64_t>()->default_value(value);
  };
  auto option = options.add_options();
  option("model", kModelFlagHelp, cxxopts::value<std::string>(), "PATH");
  option("weights", kWeightsFlagHelp, cxxopts::value<std::string>()->default_value("file"), "TYPE");
  option("tasks", "names or patterns, separated by commas", cxxopts::value<std::string>(), "LIST");
  option("list", "print the names of all tasks");
  option("data", "folder of the data sets; default: FLYWHEEL_DATA", cxxopts::value<std::string>(),
         "FOLDER");
  option("text", "the file that perplexity or recall reads", cxxopts::value<std::string>(), "FILE");
  option("limit", "only the first N documents of a task, or that part of them below 1",
         cxxopts::value<double>(), "N");
  option("num_fewshot", "examples before each question", number("0"), "N");
  option("stride", "perplexity: new tokens a window; 0: all of it", number("0"), "N");
  option("max_length", "tokens read at once; 0: the model's positions", number("0"), "N");
  option("add_bos_token", "begin every text with the beginning-of-sequence token");
  option("draws", "sa: evaluate so often, with other permutations", number("1"), "N");
  option("allow-code-execution", "humaneval: run the programs that the model writes");
  option("bootstrap_iters", "for the errors of perplexities", number("100000"), "N");
  option("output_path", "write results there: a folder, or a name that ends in .json",
         cxxopts::value<std::string>(), "PATH");
  option("log_samples", "write every request and its scores, too");
  option("batch_tokens", "tokens of a pass", number("4096"), "N");
  option("seed", "of the permutations", cxxopts::value<std::uint64_t>()->default_value("0"), "N");
  option("threads", "0: one a core", cxxopts::value<int>()->default_value("0"), "N");
  option("help", "print this");
  add_attention_flags(options);
  return options;
}

std::string text_flag(const cxxopts::ParseResult& args, const char* name) {
  return args.count(name) != 0 ? args[name].as<std::string>() : "";
}

EvaluationOptions evaluation_options(const cxxopts::ParseResult& args) {
  EvaluationOptions options;
  const char* folder = std::getenv("FLYWHEEL_DATA");
  options.data = args.count("data") != 0 || folder == nullptr ? text_flag(args, "data") : folder;
  options.text = text_flag(args, "text");
  if (args.count("limit") != 0) options.limit = args["limit"].as<double>();
  options.shots = args["num_fewshot"].as<std::int64_t>();
  options.stride = args["stride"].as<std::int64_t>();
  options.draws = args["draws"].as<std::int64_t>();
  options.bootstrap_iterations = args["bootstrap_iters"].as<std::int64_t>();
  options.allow_programs = args.count("allow-code-execution") != 0;
  require(options.draws >= 1 && options.shots >= 0, ErrorKind::Config,
          "--draws must be 1 or more, --num_fewshot not negative");
  return options;
}

}  // namespace flywheel
