#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/position_loss.h"
#include "core/error.h"
#include "core/json_fields.h"
#include "tools/analyze.h"
#include "tools/analyze_flags.h"
#include "tools/analyze_model.h"
#include "tools/model_flag.h"
#include "tools/progress_line.h"
#include "train/console.h"

namespace flywheel {
namespace {

struct ModelResult {
  std::string name;
  std::vector<PositionLoss> positions;
};

cxxopts::Options make_options() {
  cxxopts::Options options = subcommand_options(
      "positions", "The perplexity of a text by the number of tokens that a prediction could see.");
  options.add_options()("model", std::string(kModelFlagHelp) + "; may be repeated",
                        cxxopts::value<std::vector<std::string>>(), "PATH");
  add_text_flags(options);
  add_output_flags(options);
  return options;
}

ModelResult measure(const std::string& name, const cxxopts::ParseResult& args) {
  ModelAndText run = open_model_and_text(name, args);
  Scorer scorer(*run.model, run.limits, args["seed"].as<std::uint64_t>());
  ProgressLine line;
  const auto scores = scorer.score(run.windows, 0, [&](std::int64_t done, std::int64_t total) {
    line.show([&] { return fmt::format("{}: {} of {} tokens", name, done, total); });
  });
  return {name, loss_by_position(run.windows, scores)};
}

// One row a range of contexts, one column a model.
std::vector<std::vector<std::string>> table(const std::vector<ModelResult>& results) {
  std::vector<std::vector<std::string>> rows{{"context"}};
  std::map<std::int64_t, std::size_t> places;
  for (const ModelResult& result : results) {
    rows[0].push_back(result.name);
    for (const PositionLoss& bin : result.positions) places.emplace(bin.last, 0);
  }
  for (auto& [last, place] : places) {
    place = rows.size();
    rows.emplace_back(results.size() + 1);
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    for (const PositionLoss& bin : results[r].positions) {
      std::vector<std::string>& row = rows[places.at(bin.last)];
      row[0] = fmt::format("{} to {}", bin.first, bin.last);
      row[r + 1] = fmt::format("{:.3f}", std::exp(bin.loss));
    }
  }
  return rows;
}

std::string csv(const std::vector<ModelResult>& results) {
  std::string lines = "model,first,last,tokens,loss\n";
  for (const ModelResult& result : results) {
    for (const PositionLoss& bin : result.positions) {
      lines +=
          fmt::format("{},{},{},{},{}\n", result.name, bin.first, bin.last, bin.tokens, bin.loss);
    }
  }
  return lines;
}

std::string json(const std::vector<ModelResult>& results) {
  Json models = Json::array();
  for (const ModelResult& result : results) {
    Json bins = Json::array();
    for (const PositionLoss& bin : result.positions) {
      bins.push_back(
          {{"first", bin.first}, {"last", bin.last}, {"tokens", bin.tokens}, {"loss", bin.loss}});
    }
    models.push_back({{"model", result.name}, {"positions", std::move(bins)}});
  }
  return Json{{"models", std::move(models)}}.dump(2) + "\n";
}

Chart chart(const std::vector<ModelResult>& results) {
  Chart chart{.title = "perplexity by context",
              .x_label = "tokens of context",
              .y_label = "perplexity",
              .log_x = true,
              .log_y = true,
              .series = {}};
  for (const ModelResult& result : results) {
    Series& series = chart.series.emplace_back();
    series.title = result.name;
    for (const PositionLoss& bin : result.positions) {
      series.points.emplace_back(std::sqrt(double(bin.first) * double(bin.last)),
                                 std::exp(bin.loss));
    }
  }
  return chart;
}

int run(const cxxopts::ParseResult& args) {
  require(args.count("model") != 0, ErrorKind::Config, "--model is missing");
  const OutputFiles files = output_flags(args);
  files.prepare();
  std::vector<ModelResult> results;
  for (const auto& name : args["model"].as<std::vector<std::string>>()) {
    results.push_back(measure(name, args));
  }
  fmt::print("Perplexity of a token by the number of tokens before it in its window\n{}\n",
             format_table(table(results), 1));
  write_outputs(files, csv(results), json(results), chart(results));
  return 0;
}

}  // namespace

int analyze_positions(int argc, char** argv) {
  return run_subcommand(make_options(), argc, argv, run);
}

}  // namespace flywheel
