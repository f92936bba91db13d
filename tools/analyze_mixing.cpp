#include <fmt/format.h>

#include <cxxopts.hpp>

#include "analysis/mixing_report.h"
#include "core/error.h"
#include "tools/analyze.h"
#include "tools/analyze_flags.h"
#include "tools/progress_line.h"
#include "train/console.h"

namespace flywheel {
namespace {

cxxopts::Options make_options() {
  cxxopts::Options options = subcommand_options(
      "mixing",
      "Second singular value of products of uniform attention, layer by layer; then the bias and "
      "variance of one sa layer as an estimator of full uniform attention, by window.");
  add_stack_flags(options, "full,swa,sa,sa_swa");
  auto option = options.add_options();
  option("n,tokens", "tokens of the sequence",
         cxxopts::value<std::int64_t>()->default_value("2048"), "N");
  option("no-mask", "products without the causal mask: sa as it is, swa on both sides");
  option("windows", "windows of the estimator",
         cxxopts::value<std::vector<std::int64_t>>()->default_value("16,32,64,128,256,512"),
         "LIST");
  option("draws", "permutations that the estimator's moments are taken over; 0: no estimator",
         cxxopts::value<std::int64_t>()->default_value("200"), "N");
  option("seed", "of permutations and values", cxxopts::value<std::uint64_t>()->default_value("0"),
         "N");
  option("threads", "threads; 0: one a core", cxxopts::value<int>()->default_value("0"), "N");
  add_output_flags(options);
  return options;
}

std::string ratio_text(const SingularValues& values) {
  const double ratio = values.second / values.first;
  return ratio > kSmallestRatio ? fmt::format("{:.3g}", ratio) : "< 1e-07";
}

void print_products(const std::vector<MixingResult>& results) {
  std::vector<std::vector<std::string>> rows{{"layers"}};
  std::size_t depth = 0;
  for (const MixingResult& result : results) {
    rows[0].insert(rows[0].end(), {result.pattern + " s1", "s2", "s2/s1"});
    depth = std::max(depth, result.layers.size());
  }
  for (std::size_t l = 0; l < depth; ++l) {
    auto& row = rows.emplace_back(std::vector{std::to_string(l + 1)});
    for (const MixingResult& result : results) {
      const SingularValues& values = result.layers.at(l);
      row.insert(row.end(), {fmt::format("{:.4f}", values.first),
                             fmt::format("{:.3g}", values.second), ratio_text(values)});
    }
  }
  fmt::print("{}\n", format_table(rows, 0));
}

std::vector<EstimatorError> estimate(const cxxopts::ParseResult& args, std::int64_t n,
                                     ThreadPool& pool) {
  std::vector<EstimatorError> errors;
  const std::int64_t draws = count_flag(args, "draws", 0);
  if (draws == 0) return errors;
  ProgressLine line;
  AttentionConfig section = attention_section(args);
  for (const std::int64_t window : args["windows"].as<std::vector<std::int64_t>>()) {
    section.window = window;
    line.show([&] { return fmt::format("estimator: window {}", window); });
    const AttentionStack sa = uniform_stack("sa", section, 1);
    errors.push_back(
        estimator_error(sa.layers[0].path, n, draws, args["seed"].as<std::uint64_t>(), pool));
  }
  return errors;
}

void print_estimator(const std::vector<EstimatorError>& errors) {
  std::vector<std::vector<std::string>> rows{{"w", "bias", "w * bias", "variance", "w * variance"}};
  std::vector<double> windows, biases, variances;
  for (const EstimatorError& error : errors) {
    const auto w = static_cast<double>(error.window);
    rows.push_back({std::to_string(error.window), fmt::format("{:.5f}", error.bias),
                    fmt::format("{:.3f}", w * error.bias), fmt::format("{:.5f}", error.variance),
                    fmt::format("{:.3f}", w * error.variance)});
    windows.push_back(w);
    biases.push_back(error.bias);
    variances.push_back(error.variance);
  }
  fmt::print("\nOne sa layer as an estimator of full uniform attention, values of variance 1\n{}\n",
             format_table(rows, 0));
  if (errors.size() < 2) return;
  fmt::print("slope of the logarithms: bias {:.2f}, variance {:.2f}\n", log_slope(windows, biases),
             log_slope(windows, variances));
}

int run(const cxxopts::ParseResult& args) {
  const auto stacks = stack_flags(args);
  const MixingOptions options{.n = count_flag(args, "tokens", 2),
                              .seed = args["seed"].as<std::uint64_t>(),
                              .mask = args.count("no-mask") != 0 ? Mask::None : Mask::Causal};
  const OutputFiles files = output_flags(args);
  files.prepare();
  ThreadPool pool(args["threads"].as<int>());
  std::vector<MixingResult> results;
  for (const AttentionStack& stack : stacks) {
    ProgressLine line;
    results.push_back(
        {stack.name, mixing(stack, options, pool, [&](std::int64_t done, std::int64_t total) {
           line.show([&] { return fmt::format("{}: {} of {} layers", stack.name, done, total); });
         })});
  }
  fmt::print("{} tokens{}\n", options.n, options.mask == Mask::None ? ", no mask" : "");
  note_full_windows(stacks, options.n);
  print_products(results);
  const auto errors = estimate(args, options.n, pool);
  if (!errors.empty()) print_estimator(errors);
  write_outputs(files, mixing_csv(results), mixing_json(results, errors, options),
                mixing_chart(results, options));
  return 0;
}

}  // namespace

int analyze_mixing(int argc, char** argv) {
  return run_subcommand(make_options(), argc, argv, run);
}

}  // namespace flywheel
