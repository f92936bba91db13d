#include <fmt/format.h>

#include <cmath>
#include <cxxopts.hpp>

#include "analysis/coverage_report.h"
#include "core/error.h"
#include "tools/analyze.h"
#include "tools/analyze_flags.h"
#include "tools/progress_line.h"
#include "train/console.h"

namespace flywheel {
namespace {

constexpr std::int64_t kExactTokens = 16384;
constexpr std::int64_t kSampledQueries = 64;

cxxopts::Options make_options() {
  cxxopts::Options options = subcommand_options(
      "coverage",
      "The receptive field layer by layer: which fraction of the positions 0..i query i reaches.");
  add_stack_flags(options, "full,swa,sa,sa_swa");
  auto option = options.add_options();
  option("n,tokens", "tokens of the sequence",
         cxxopts::value<std::int64_t>()->default_value("4096"), "N");
  option("queries", "sample so many queries; 0: all, up to 16384 tokens, else 64",
         cxxopts::value<std::int64_t>()->default_value("0"), "N");
  option("seeds", "draws of the permutations", cxxopts::value<std::int64_t>()->default_value("1"),
         "N");
  option("seed", "the first of them", cxxopts::value<std::uint64_t>()->default_value("0"), "N");
  option("no-mask", "without the causal mask: covered is the fraction of all positions");
  option("threads", "threads; 0: one a core", cxxopts::value<int>()->default_value("0"), "N");
  add_output_flags(options);
  return options;
}

CoverageOptions coverage_options(const cxxopts::ParseResult& args) {
  CoverageOptions options{.n = count_flag(args, "tokens", 1),
                          .queries = count_flag(args, "queries", 0),
                          .seed = args["seed"].as<std::uint64_t>(),
                          .mask = args.count("no-mask") != 0 ? Mask::None : Mask::Causal};
  if (options.queries == 0 && options.n > kExactTokens) options.queries = kSampledQueries;
  return options;
}

CoverageResult measure(const AttentionStack& stack, CoverageOptions options, std::int64_t seeds,
                       ThreadPool& pool) {
  CoverageResult result{.pattern = stack.name,
                        .mean_visible_keys = mean_visible_keys(stack, options.n)};
  ProgressLine line;
  for (std::int64_t s = 0; s < seeds; ++s, ++options.seed) {
    result.runs.push_back(
        coverage(stack, options, pool, [&](std::int64_t done, std::int64_t total) {
          line.show([&] {
            return fmt::format("{}: seed {} of {}, {}%", stack.name, s + 1, seeds,
                               100 * done / total);
          });
        }));
  }
  return result;
}

std::vector<std::string> layer_row(std::size_t layer,
                                   const std::vector<std::vector<LayerCoverage>>& patterns) {
  std::vector<std::string> row{std::to_string(layer + 1)};
  for (const auto& layers : patterns) {
    row.push_back(layer < layers.size() ? fmt::format("{:.4f}", layers[layer].mean) : "");
    row.push_back(layer < layers.size() ? fmt::format("{:.4f}", layers[layer].minimum) : "");
  }
  return row;
}

// Layers after which nothing changes any more are left out.
void print_layers(const std::vector<CoverageResult>& results) {
  std::vector<std::vector<std::string>> rows{{"layer"}};
  std::vector<std::vector<LayerCoverage>> patterns;
  std::size_t shown = 0;
  for (const CoverageResult& result : results) {
    rows[0].insert(rows[0].end(), {result.pattern + " mean", "min"});
    const auto& layers = patterns.emplace_back(over_seeds(result.runs));
    const std::int64_t all = depth_reaching(layers, &LayerCoverage::minimum, 1);
    shown = std::max(shown, all == 0 ? layers.size() : static_cast<std::size_t>(all));
  }
  for (std::size_t l = 0; l < shown; ++l) rows.push_back(layer_row(l, patterns));
  fmt::print("{}\n\n", format_table(rows, 0));
}

void print_depths(const std::vector<CoverageResult>& results) {
  std::vector<std::vector<std::string>> rows{
      {"pattern", "keys a query", "mean >= 0.99", "last query >= 0.99", "every query whole"}};
  for (const CoverageResult& result : results) {
    rows.push_back({result.pattern, fmt::format("{:.1f}", result.mean_visible_keys),
                    mean_depth(result, &CoverageDepth::mean).text(),
                    mean_depth(result, &CoverageDepth::last).text(),
                    mean_depth(result, &CoverageDepth::all).text()});
  }
  fmt::print("Layers until so much is covered (> : not by every seed within the stack)\n{}\n",
             format_table(rows, 1));
}

int run(const cxxopts::ParseResult& args) {
  const auto stacks = stack_flags(args);
  const CoverageOptions options = coverage_options(args);
  const OutputFiles files = output_flags(args);
  files.prepare();
  const std::int64_t seeds = count_flag(args, "seeds", 1);
  ThreadPool pool(args["threads"].as<int>());
  std::vector<CoverageResult> results;
  for (const AttentionStack& stack : stacks) {
    results.push_back(measure(stack, options, seeds, pool));
  }
  fmt::print("{} tokens, {}{}, {} seed{}\n", options.n,
             options.queries == 0 ? "all queries" : fmt::format("{} queries", options.queries),
             options.mask == Mask::None ? ", no mask" : "", seeds, seeds == 1 ? "" : "s");
  note_full_windows(stacks, options.n);
  print_layers(results);
  print_depths(results);
  if (args.count("config") == 0) {
    const auto n = static_cast<double>(options.n);
    const auto w = static_cast<double>(args["window"].as<std::int64_t>());
    fmt::print("n / w = {:.1f}", n / w);
    if (w > 1) fmt::print(", log_w(n) = {:.2f}", std::log(n) / std::log(w));
    fmt::print("\n");
  }
  write_outputs(files, coverage_csv(results), coverage_json(results, options),
                coverage_chart(results, options));
  return 0;
}

}  // namespace

int analyze_coverage(int argc, char** argv) {
  return run_subcommand(make_options(), argc, argv, run);
}

}  // namespace flywheel
