// evaluate: scores a model on benchmarks as lm-evaluation-harness does.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "eval/report.h"
#include "eval/result_files.h"
#include "tools/attention_flags.h"
#include "tools/evaluate_flags.h"
#include "tools/evaluate_programs.h"
#include "tools/model_scorer.h"
#include "tools/parse_options.h"
#include "tools/program.h"
#include "tools/progress_line.h"

namespace {

using namespace flywheel;

cxxopts::Options evaluate_flags() {
  cxxopts::Options options(
      "evaluate", "Scores a model on benchmarks with lm-evaluation-harness's prompts and metrics.");
  options.custom_help("--model PATH --tasks LIST [OPTION...]");
  add_evaluation_flags(options);
  auto option = options.add_options();
  option("list", "print the names of all tasks");
  option("output_path", "write results there: a folder, or a name that ends in .json",
         cxxopts::value<std::string>(), "PATH");
  option("log_samples", "write every request and its scores, too");
  add_attention_flags(options);
  return options;
}

int print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", line);
  return 0;
}

std::string progress_text(const TaskResult& task, const ProgressLine& line, std::int64_t done,
                          std::int64_t total) {
  const char* unit = task.task.kind == TaskKind::Program ? "programs" : "tokens";
  const double rate = static_cast<double>(done) / std::max(line.seconds(), 1e-9);
  const double left = static_cast<double>(total - done) / std::max(rate, 1e-9);
  return fmt::format("{}: {} of {} {}, {:.{}f} {}/s, {:.0f} s left", task.task.name, done, total,
                     unit, rate, rate < 10 ? 2 : 0, unit, left);
}

// Building the model comes last: a missing file or a wrong name shows at once.
int run(int argc, char** argv) {
  cxxopts::Options options = evaluate_flags();
  const auto args = parse_options(options, argc, argv);
  const TaskRegistry registry;
  if (args.count("help") != 0) return print_lines({options.help()});
  if (args.count("list") != 0) return print_lines(registry.names());
  require(args.count("model") != 0 && args.count("tasks") != 0, ErrorKind::Config,
          "--model and --tasks are needed; see evaluate --help");
  EvaluationRecord record{.options = evaluation_options(args),
                          .attention = attention_flags(args),
                          .model_name = args["model"].as<std::string>(),
                          .batch_tokens = args["batch_tokens"].as<std::int64_t>(),
                          .seed = args["seed"].as<std::uint64_t>(),
                          .add_prefix = args.count("add_bos_token") != 0};
  const std::string output = text_flag(args, "output_path");
  const bool samples = args.count("log_samples") != 0;
  require(!samples || !output.empty(), ErrorKind::Config, "--log_samples needs --output_path");
  EvaluationResults results;
  for (const Task& task : registry.select(args["tasks"].as<std::string>())) {
    results.tasks.push_back(prepare_task(task, record.options));
  }

  ModelScorer scorer(record.model_name, scoring_options(args));
  const ModelConfig config = scored_config(scorer.opened().config, record.attention);
  if (!output.empty()) prepare_results(output, record.model_name);
  record.max_length = scorer.max_length();
  record.prefix_token = scorer.prefix_token();
  record.tokenizer_fingerprint = scorer.opened().tokenizer->fingerprint();
  record.attention_text = describe_attention(config);
  record.model_parameters = Transformer::cost(config, 1).parameters;
  record.weights = scorer.weights();
  scorer.use(config, writes_programs(results.tasks));
  const ProgressLine clock;
  for (TaskResult& task : results.tasks) {
    ProgressLine line;
    scorer.evaluate(task, record.options, [&](std::int64_t done, std::int64_t total) {
      line.show([&] { return progress_text(task, line, done, total); });
    });
  }
  results.groups = combine_groups(registry, results.tasks);
  record.seconds = clock.seconds();
  if (!output.empty()) {
    const auto paths = write_results(results, record, output, samples);
    fmt::print(stderr, "written: {}\n", paths.results.string());
  }
  fmt::print("{}", report(results, record));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("evaluate", argc, argv, run);
}
