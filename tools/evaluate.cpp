// evaluate: scores a model on benchmarks as lm-evaluation-harness does.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "cpu/cpu_backend.h"
#include "eval/prefix_token.h"
#include "eval/report.h"
#include "eval/result_files.h"
#include "infer/load_model.h"
#include "tools/attention_flags.h"
#include "tools/evaluate_flags.h"
#include "tools/evaluate_programs.h"
#include "tools/program.h"
#include "tools/progress_line.h"

namespace {

using namespace flywheel;

int print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", line);
  return 0;
}

std::string progress_text(const std::string& task, const ProgressLine& line, std::int64_t done,
                          std::int64_t total) {
  const double rate = static_cast<double>(done) / std::max(line.seconds(), 1e-9);
  return fmt::format("{}: {} of {} tokens, {:.0f} tokens/s, {:.0f} s left", task, done, total, rate,
                     static_cast<double>(total - done) / std::max(rate, 1.0));
}

void report_cut(const TaskResult& task, std::int64_t max_length) {
  if (task.cut_requests == 0) return;
  log::warning("{}: {} requests were longer than {} tokens and lost their beginning",
               task.task.name, task.cut_requests, max_length);
}

// Building the model comes last: a missing file or a wrong name shows at once.
int run(int argc, char** argv) {
  cxxopts::Options options = evaluate_flags();
  const auto args = options.parse(argc, argv);
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

  const OpenedModel opened = open_model(record.model_name);
  ModelConfig config = with_attention(opened.config, record.attention);
  config.attention.per_sequence = false;  // a score depends on its own text alone
  if (!output.empty()) prepare_results(output, record.model_name);
  const std::int64_t wanted = args["max_length"].as<std::int64_t>();
  record.max_length = wanted == 0 ? config.max_positions : wanted;
  require(record.max_length <= config.max_positions, ErrorKind::Config,
          "--max_length {}: the model has {} positions", wanted, config.max_positions);
  record.prefix_token = std::filesystem::is_directory(opened.path)
                            ? prefix_token(opened.path, *opened.tokenizer)
                            : opened.special.begin;
  record.tokenizer_fingerprint = opened.tokenizer->fingerprint();
  record.attention_text = describe_attention(config);
  record.model_parameters = Transformer::cost(config, 1).parameters;
  const RequestEncoder encoder(*opened.tokenizer, {.prefix_token = record.prefix_token,
                                                   .add_prefix = record.add_prefix,
                                                   .max_length = record.max_length});
  TransformerLimits limits{.max_tokens = std::max(record.max_length, record.batch_tokens),
                           .max_sequences = 512,
                           .training = false};
  limits.weights = weights_type(opened.weights, config, args["weights"].as<std::string>());
  if (writes_programs(results.tasks)) {
    limits.cache_slots = kProgramsTogether;
    limits.cache_length = record.max_length;
  }
  const auto backend = make_cpu_backend(args["threads"].as<int>());
  const auto model = load_transformer(opened.weights, config, *backend, limits);
  Scorer scorer(*model, limits, record.seed);
  const ProgressLine clock;
  for (TaskResult& task : results.tasks) {
    ProgressLine line;
    if (task.task.kind == TaskKind::Program) {
      write_programs(task, *model, limits, opened, encoder, record.seed, line);
      continue;
    }
    evaluate_task(task, *model, scorer, encoder, record.options,
                  [&](std::int64_t done, std::int64_t total) {
                    line.show([&] { return progress_text(task.task.name, line, done, total); });
                  });
    report_cut(task, record.max_length);
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
