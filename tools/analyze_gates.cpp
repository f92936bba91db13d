#include <fmt/format.h>

#include "analysis/gate_statistics.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"
#include "plot/gnuplot.h"
#include "tools/analyze.h"
#include "tools/analyze_flags.h"
#include "tools/analyze_model.h"
#include "tools/model_flag.h"
#include "tools/progress_line.h"
#include "train/console.h"

namespace flywheel {
namespace {

cxxopts::Options make_options() {
  cxxopts::Options options =
      subcommand_options("gates",
                         "How far the gates of an SA+SWA model are open on a text, by layer and "
                         "head: does it use the shortcuts, and where?");
  options.add_options()("model", kModelFlagHelp, cxxopts::value<std::string>(), "PATH");
  add_text_flags(options);
  add_output_flags(options);
  return options;
}

std::string cell(const GateMoments& gate) {
  return fmt::format("{:.3f} +- {:.3f}", gate.mean, gate.deviation);
}

std::vector<std::vector<std::string>> table(const std::vector<HeadGates>& gates) {
  std::vector<std::vector<std::string>> rows{{"layer", "head", "sa", "swa"}};
  for (const HeadGates& head : gates) {
    rows.push_back(
        {std::to_string(head.layer), std::to_string(head.head), cell(head.sa), cell(head.swa)});
  }
  return rows;
}

std::string csv(const std::vector<HeadGates>& gates) {
  std::string lines = "layer,head,sa_mean,sa_deviation,swa_mean,swa_deviation\n";
  for (const HeadGates& head : gates) {
    lines += fmt::format("{},{},{},{},{},{}\n", head.layer, head.head, head.sa.mean,
                         head.sa.deviation, head.swa.mean, head.swa.deviation);
  }
  return lines;
}

std::string json(const std::vector<HeadGates>& gates) {
  Json heads = Json::array();
  const auto moments = [](const GateMoments& gate) {
    return Json{{"mean", gate.mean}, {"deviation", gate.deviation}};
  };
  for (const HeadGates& head : gates) {
    heads.push_back({{"layer", head.layer},
                     {"head", head.head},
                     {"sa", moments(head.sa)},
                     {"swa", moments(head.swa)}});
  }
  return Json{{"gates", std::move(heads)}}.dump(2) + "\n";
}

// Two maps side by side, a row a layer.
std::string heat_maps(const std::vector<HeadGates>& gates) {
  std::string script =
      "set multiplot layout 1,2\nset cbrange [0:1]\nset xlabel 'head'\nset ylabel 'layer'\n"
      "set xtics 1\nset ytics 1\nset yrange [] reverse\nset autoscale fix\nset palette defined (0 "
      "'#f7fbff', 0.5 "
      "'#6baed6', 1 '#08306b')\nunset key\n";
  for (const bool sa : {true, false}) {
    script += fmt::format("set title 'mean gate of {}'\n$gates << END\n", sa ? "sa" : "swa");
    for (const HeadGates& head : gates) {
      script += fmt::format("{} {} {}\n", head.head, head.layer, sa ? head.sa.mean : head.swa.mean);
    }
    script += "END\nplot $gates using 1:2:3 with image pixels\n";
  }
  return script + "unset multiplot\n";
}

int run(const cxxopts::ParseResult& args) {
  require(args.count("model") != 0, ErrorKind::Config, "--model is missing");
  const OutputFiles files = output_flags(args);
  files.prepare();
  const ModelAndText run = open_model_and_text(args["model"].as<std::string>(), args);
  ProgressLine line;
  const auto gates =
      gate_statistics(*run.model, run.windows, args["seed"].as<std::uint64_t>(),
                      [&](std::int64_t done, std::int64_t total) {
                        line.show([&] { return fmt::format("window {} of {}", done, total); });
                      });
  line.clear();
  fmt::print("Gates (0: closed, 1: open), mean and deviation over the tokens\n{}\n",
             format_table(table(gates), 1));
  if (!files.csv.empty()) write_file_atomically(files.csv, csv(gates));
  if (!files.json.empty()) write_file_atomically(files.json, json(gates));
  if (!files.figure.empty()) {
    write_file_atomically(files.figure, gnuplot_svg(heat_maps(gates), 900, 420));
  }
  return 0;
}

}  // namespace

int analyze_gates(int argc, char** argv) {
  return run_subcommand(make_options(), argc, argv, run);
}

}  // namespace flywheel
