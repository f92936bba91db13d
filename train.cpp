// train: pretrains a model as a config file says.

#include <fmt/format.h>

#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "infer/continue_texts.h"
#include "tools/parse_options.h"
#include "tools/program.h"
#include "train/console.h"
#include "train/run.h"
#include "train/train_config.h"

namespace flywheel {
namespace {

constexpr const char* kExamples = R"(
Examples:
  train --config configs/demo.json
  train --config configs/demo.json --dry-run
  train --config my.json --set train.max_steps=2000 --set model.attention.window=128
  train --config my.json --resume
  train --config my.json --set train.device=cuda --set train.precision=bfloat16

docs/training.md describes every key of the config.)";

cxxopts::Options make_options() {
  cxxopts::Options options("train", "Pretrains a model as a JSON config says.");
  auto add = options.add_options();
  add("config", "config file", cxxopts::value<std::string>(), "FILE");
  add("set", "override a value, as in train.max_steps=100; may be repeated",
      cxxopts::value<std::vector<std::string>>(), "KEY=VALUE");
  add("resume", "go on from the newest valid checkpoint of the run's folder");
  add("overwrite", "start again and delete the checkpoints of the run's folder");
  add("dry-run", "show config, parameters, memory and cost; train and write nothing");
  add("schema", "print the JSON Schema of config files");
  add("version", "print the version");
  add("help", "print this help");
  return options;
}

// The values of every --set. cxxopts would split them at commas.
std::vector<std::string> overrides_in(const std::vector<std::string>& arguments) {
  std::vector<std::string> overrides;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--set" && i + 1 < arguments.size()) overrides.push_back(arguments[++i]);
    if (arguments[i].starts_with("--set=")) overrides.push_back(arguments[i].substr(6));
  }
  return overrides;
}

std::string resume_command(const char* program, const std::vector<std::string>& arguments) {
  std::string command = shell_quote(program);
  for (const std::string& argument : arguments) {
    if (argument != "--resume" && argument != "--overwrite") command += " " + shell_quote(argument);
  }
  return command + " --resume";
}

// Another program of the same folder, called in the same way.
std::string program_beside(const std::string& program, const std::string& name) {
  const std::size_t slash = program.find_last_of('/');
  return slash == std::string::npos ? name : program.substr(0, slash + 1) + name;
}

std::vector<std::string> continue_prompts(Transformer& model, const TransformerLimits& limits,
                                          const Tokenizer& tokenizer, const SamplesConfig& samples,
                                          std::uint64_t seed) {
  const GenerateOptions options{.sampling = {.temperature = samples.temperature, .seed = seed},
                                .tokens = samples.tokens};
  return continue_texts(model, limits, tokenizer, samples.prompts, options);
}

int run(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const char* program = argv[0];
  const auto flags = parse_options(options, argc, argv);
  if (flags.count("help") > 0) {
    fmt::print("{}{}\n", options.help(), kExamples);
    return 0;
  }
  if (flags.count("version") > 0) {
    fmt::print("flywheel {}\n", FLYWHEEL_VERSION);
    return 0;
  }
  if (flags.count("schema") > 0) {
    fmt::print("{}\n", run_config_schema());
    return 0;
  }
  require(flags.unmatched().empty(), ErrorKind::Config,
          "unexpected argument '{}'; see train --help",
          flags.unmatched().empty() ? "" : flags.unmatched().front());
  require(flags.count("config") == 1, ErrorKind::Config,
          "expected --config FILE once; see train --help");
  const bool resume = flags.count("resume") > 0;
  const bool overwrite = flags.count("overwrite") > 0;
  require(!resume || !overwrite, ErrorKind::Config, "give --resume or --overwrite, not both");

  const RunConfig config =
      load_run_config(flags["config"].as<std::string>(), overrides_in(arguments));
  Console console(stdout);
  if (flags.count("dry-run") > 0) {
    preview_run(config, console);
  } else {
    run_training(config,
                 {.resume = resume,
                  .overwrite = overwrite,
                  .resume_command = resume_command(program, arguments),
                  .report_program = shell_quote(program_beside(program, "report")),
                  .continue_prompts = continue_prompts},
                 console);
  }
  return 0;
}

}  // namespace
}  // namespace flywheel

int main(int argc, char** argv) {
  return flywheel::run_program("train", argc, argv, flywheel::run);
}
