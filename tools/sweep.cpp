// sweep: scores a model under several attention patterns and windows.

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/log.h"
#include "tools/attention_flags.h"
#include "tools/evaluate_flags.h"
#include "tools/parse_options.h"
#include "tools/program.h"
#include "tools/sweep_run.h"

namespace {

using namespace flywheel;

constexpr const char* kExamples = R"(
--output gets sweep.json, where every cell is kept as soon as it is done, sweep.csv, sweep.md and the figure sweep.svg:
score against mean visible keys. The same command goes on where an earlier one was stopped; tasks, patterns and windows
may be added to a folder.

Examples:
  sweep --model MODEL.gguf --tasks lambada_openai,arc_easy,mmlu --data DATA --limit 100 --output runs/sweep
  sweep --model runs/demo/train --tasks recall --text runs/demo/corpus/recall.jsonl --patterns full,swa,sa \
        --windows 8,16,32 --output runs/sweep_demo
)";

cxxopts::Options make_options() {
  cxxopts::Options options("sweep",
                           "Scores a model under several attention patterns and windows, its "
                           "weights untouched.");
  options.custom_help("--model PATH --tasks LIST --output FOLDER [OPTION...]");
  add_evaluation_flags(options);
  auto option = options.add_options();
  option("patterns", "of attention, separated by commas",
         cxxopts::value<std::vector<std::string>>()->default_value("full,swa,sa,moba"), "LIST");
  option("windows", "of the patterns, in keys",
         cxxopts::value<std::vector<std::int64_t>>()->default_value("16,32,64,128,256"), "LIST");
  option("output", "the folder of the results", cxxopts::value<std::string>(), "FOLDER");
  add_pattern_flags(options);
  return options;
}

SweepOptions sweep_options(const cxxopts::ParseResult& args, const EvaluationOptions& evaluation,
                           const ModelScorer& scorer) {
  return {.model = args["model"].as<std::string>(),
          .weights = std::string(name_of(scorer.weights())),
          .tokenizer_fingerprint = checksum_text(scorer.opened().tokenizer->fingerprint()),
          .limit = evaluation.limit,
          .shots = evaluation.shots,
          .stride = evaluation.stride,
          .max_length = scorer.max_length(),
          .draws = evaluation.draws,
          .seed = args["seed"].as<std::uint64_t>(),
          .add_prefix = args.count("add_bos_token") != 0,
          .attention = pattern_flags(args)};
}

void draw(const SweepRun& sweep, const std::filesystem::path& file) {
  try {
    write_file_atomically(file, sweep.figure());
  } catch (const Error& error) {
    log::warning("{} is not drawn: {}", file.string(), error.what());
  }
}

int run(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}{}", options.help(), kExamples);
    return 0;
  }
  for (const char* flag : {"model", "tasks", "output"}) {
    require(args.count(flag) != 0, ErrorKind::Config, "--{} is needed; see sweep --help", flag);
  }
  const EvaluationOptions evaluation = evaluation_options(args);
  const TaskRegistry registry;
  const std::vector<SweepSetting> settings =
      sweep_settings(args["patterns"].as<std::vector<std::string>>(),
                     args["windows"].as<std::vector<std::int64_t>>());
  const std::filesystem::path output = args["output"].as<std::string>();
  ModelScorer scorer(args["model"].as<std::string>(), scoring_options(args));
  SweepRun sweep(output, sweep_options(args, evaluation, scorer), settings,
                 sweep_columns(registry, args["tasks"].as<std::string>(), evaluation),
                 scorer.opened().config);
  sweep.fill(scorer, registry, evaluation);
  draw(sweep, output / "sweep.svg");
  fmt::print("{}", sweep.table());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("sweep", argc, argv, run);
}
