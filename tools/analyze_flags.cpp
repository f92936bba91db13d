#include "tools/analyze_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/file_io.h"
#include "plot/gnuplot.h"
#include "tools/attention_flags.h"
#include "tools/parse_options.h"
#include "train/train_config.h"

namespace flywheel {
namespace {

bool all_full(const AttentionStack& stack, std::int64_t n) {
  return std::all_of(stack.layers.begin(), stack.layers.end(), [n](const LayerAttention& layer) {
    const auto paths = paths_of(layer);
    return std::any_of(paths.begin(), paths.end(),
                       [n](const AttentionPattern& path) { return path.sees_all(n); });
  });
}

}  // namespace

cxxopts::Options subcommand_options(const std::string& name, const std::string& description) {
  cxxopts::Options options("analyze " + name, description);
  options.custom_help("[OPTION...]");
  options.add_options()("help", "print this");
  return options;
}

int run_subcommand(cxxopts::Options options, int argc, char** argv,
                   int (*run)(const cxxopts::ParseResult&)) {
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") == 0) return run(args);
  fmt::print("{}\n", options.help());
  return 0;
}

void add_stack_flags(cxxopts::Options& options, const std::string& default_patterns) {
  options.add_options("Attention")(
      "patterns", "of full, swa, sa, sa_swa: one in all layers",
      cxxopts::value<std::vector<std::string>>()->default_value(default_patterns), "LIST")(
      "config", "the layers of a run's config file in place of patterns, windows and layers",
      cxxopts::value<std::string>(), "FILE")(
      "layers", "number of layers", cxxopts::value<std::int64_t>()->default_value("24"), "N")(
      "window", "keys of a window", cxxopts::value<std::int64_t>()->default_value("256"), "N")(
      "band", "sa: centered or trailing", cxxopts::value<std::string>()->default_value("centered"),
      "NAME")("budget", "sa: slots, or matched (as many keys as swa)",
              cxxopts::value<std::string>()->default_value("slots"), "NAME")(
      "clipped", "sa: ranks form a line with shorter bands at its ends, not a circle");
}

AttentionConfig attention_section(const cxxopts::ParseResult& args) {
  AttentionConfig section;
  section.window = args["window"].as<std::int64_t>();
  section.band = enum_flag<Band>("band", args["band"].as<std::string>());
  section.budget = enum_flag<Budget>("budget", args["budget"].as<std::string>());
  section.circular = args.count("clipped") == 0;
  return section;
}

std::vector<AttentionStack> stack_flags(const cxxopts::ParseResult& args) {
  if (args.count("config") != 0) {
    for (const char* flag : {"patterns", "layers", "window", "band", "budget", "clipped"}) {
      require(args.count(flag) == 0, ErrorKind::Config, "--{}: the layers come from --config",
              flag);
    }
    const std::filesystem::path file = args["config"].as<std::string>();
    return {
        {.name = file.stem().string(), .layers = resolve_layers(load_run_config(file, {}).model)}};
  }
  std::vector<AttentionStack> stacks;
  for (const std::string& pattern : args["patterns"].as<std::vector<std::string>>()) {
    stacks.push_back(
        uniform_stack(pattern, attention_section(args), count_flag(args, "layers", 1)));
  }
  return stacks;
}

void note_full_windows(const std::vector<AttentionStack>& stacks, std::int64_t n) {
  for (const AttentionStack& stack : stacks) {
    if (stack.name == "full" || !all_full(stack, n)) continue;
    fmt::print("note: {} with this window is full attention over {} tokens\n", stack.name, n);
  }
}

void add_output_flags(cxxopts::Options& options) {
  options.add_options("Output")("csv", "write a table for machines", cxxopts::value<std::string>(),
                                "FILE")("json", "write all results", cxxopts::value<std::string>(),
                                        "FILE")("figure", "draw a figure with gnuplot",
                                                cxxopts::value<std::string>(), "FILE.svg");
}

OutputFiles output_flags(const cxxopts::ParseResult& args) {
  const auto file = [&](const char* flag) {
    return args.count(flag) != 0 ? args[flag].as<std::string>() : std::string();
  };
  return {.csv = file("csv"), .json = file("json"), .figure = file("figure")};
}

void OutputFiles::prepare() const {
  for (const std::string& file : {csv, json, figure}) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    if (!folder.empty()) create_folders(folder);
  }
  require(figure.empty() || std::filesystem::path(figure).extension() == ".svg", ErrorKind::Config,
          "--figure {}: expected a name that ends in .svg", figure);
  if (!figure.empty()) gnuplot_svg("plot 0\n", 100, 100);
}

void write_outputs(const OutputFiles& files, const std::string& csv, const std::string& json,
                   const Chart& chart) {
  if (!files.csv.empty()) write_file_atomically(files.csv, csv);
  if (!files.json.empty()) write_file_atomically(files.json, json);
  if (!files.figure.empty()) write_file_atomically(files.figure, chart_file(chart));
}

std::int64_t count_flag(const cxxopts::ParseResult& args, const std::string& name,
                        std::int64_t least) {
  const std::int64_t value = args[name].as<std::int64_t>();
  require(value >= least, ErrorKind::Config, "--{} {}: expected {} or more", name, value, least);
  return value;
}

}  // namespace flywheel
