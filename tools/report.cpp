// report: one HTML page on one or several runs.

#include <fmt/format.h>

#include <cxxopts.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/file_io.h"
#include "report/report_page.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace {

using namespace flywheel;

constexpr const char* kExamples = R"(
The page holds the config, curves, evaluation results, samples and memory of each run, side by side. It needs no network.
Results are those that `evaluate --output_path RUN/results` put into the run's folder, and --results.

Examples:
  report runs/demo/train
  report runs/full runs/sa_swa --output comparison.html
)";

cxxopts::Options make_options() {
  cxxopts::Options options("report", "Shows one or several runs on one HTML page.");
  options.positional_help("RUN...");
  auto option = options.add_options();
  option("output", "the page; default: report.html in the first run's folder",
         cxxopts::value<std::string>(), "FILE");
  option("results", "results of evaluate for the first run, a file or a folder; may be repeated",
         cxxopts::value<std::vector<std::string>>(), "PATH");
  option("help", "print this");
  option("run", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional("run");
  return options;
}

int run(int argc, char** argv) {
  cxxopts::Options options = make_options();
  const auto args = parse_options(options, argc, argv);
  if (args.count("help") != 0) {
    fmt::print("{}{}", options.help({""}), kExamples);
    return 0;
  }
  require(args.count("run") != 0, ErrorKind::Config, "name the folder of a run; see report --help");
  std::vector<RunRecord> runs;
  for (const auto& folder : args["run"].as<std::vector<std::string>>()) {
    runs.push_back(read_run(folder));
  }
  if (args.count("results") != 0) {
    for (const auto& path : args["results"].as<std::vector<std::string>>()) {
      for (EvaluationEntry& entry : read_evaluations(path)) {
        runs.front().evaluations.push_back(std::move(entry));
      }
    }
  }
  shorten_names(runs);
  const std::filesystem::path page = args.count("output") != 0
                                         ? std::filesystem::path(args["output"].as<std::string>())
                                         : runs.front().folder / "report.html";
  write_file_atomically(page, report_page(runs));
  fmt::print("{}\n", page.string());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("report", argc, argv, run);
}
