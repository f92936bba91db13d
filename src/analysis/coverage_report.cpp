#include "analysis/coverage_report.h"

#include <fmt/format.h>

#include "attention/counts.h"
#include "core/json_fields.h"

namespace flywheel {
namespace {

constexpr double kNearlyAll = 0.99;

Json to_json(const std::vector<LayerCoverage>& layers) {
  Json list = Json::array();
  for (const LayerCoverage& layer : layers) {
    list.push_back({{"mean", layer.mean},
                    {"minimum", layer.minimum},
                    {"last", layer.last},
                    {"error", layer.error}});
  }
  return list;
}

}  // namespace

CoverageDepth depth_of(const std::vector<LayerCoverage>& layers) {
  return {.mean = depth_reaching(layers, &LayerCoverage::mean, kNearlyAll),
          .last = depth_reaching(layers, &LayerCoverage::last, kNearlyAll),
          .all = depth_reaching(layers, &LayerCoverage::minimum, 1)};
}

std::string MeanDepth::text() const {
  return fmt::format("{}{:.1f}", missed > 0 ? ">" : "", layers);
}

MeanDepth mean_depth(const CoverageResult& result, std::int64_t CoverageDepth::*depth) {
  MeanDepth mean;
  for (const auto& run : result.runs) {
    const std::int64_t reached = depth_of(run).*depth;
    if (reached == 0) ++mean.missed;
    mean.layers += static_cast<double>(reached == 0 ? std::ssize(run) : reached) /
                   static_cast<double>(result.runs.size());
  }
  return mean;
}

double mean_visible_keys(const AttentionStack& stack, std::int64_t n) {
  double keys = 0;
  for (const LayerAttention& layer : stack.layers) {
    for (const AttentionPattern& path : paths_of(layer)) keys += mean_visible_keys(path, n);
  }
  return keys / static_cast<double>(stack.layers.size());
}

std::string coverage_csv(const std::vector<CoverageResult>& results) {
  std::string csv = "pattern,layer,mean,minimum,last,error\n";
  for (const CoverageResult& result : results) {
    std::int64_t number = 0;
    for (const LayerCoverage& layer : over_seeds(result.runs)) {
      csv += fmt::format("{},{},{},{},{},{}\n", result.pattern, ++number, layer.mean, layer.minimum,
                         layer.last, layer.error);
    }
  }
  return csv;
}

std::string coverage_json(const std::vector<CoverageResult>& results,
                          const CoverageOptions& options) {
  Json patterns = Json::array();
  for (const CoverageResult& result : results) {
    Json runs = Json::array();
    for (std::size_t s = 0; s < result.runs.size(); ++s) {
      const CoverageDepth depth = depth_of(result.runs[s]);
      runs.push_back({{"seed", options.seed + s},
                      {"depth_mean_0.99", depth.mean},
                      {"depth_last_0.99", depth.last},
                      {"depth_all", depth.all},
                      {"layers", to_json(result.runs[s])}});
    }
    patterns.push_back({{"pattern", result.pattern},
                        {"mean_visible_keys", result.mean_visible_keys},
                        {"seeds", runs}});
  }
  return Json{{"n", options.n},
              {"queries", options.queries == 0 ? options.n : options.queries},
              {"causal", options.mask == Mask::Causal},
              {"patterns", patterns}}
             .dump(2) +
         "\n";
}

Chart coverage_chart(const std::vector<CoverageResult>& results, const CoverageOptions& options) {
  Chart chart{.title = fmt::format("Receptive field, {} tokens", options.n),
              .x_label = "layer",
              .y_label = "mean fraction covered",
              .log_y = true};
  for (const CoverageResult& result : results) {
    Series& series = chart.series.emplace_back(Series{.title = result.pattern});
    double layer = 0;
    for (const LayerCoverage& c : over_seeds(result.runs)) {
      series.points.emplace_back(++layer, c.mean);
    }
  }
  return chart;
}

}  // namespace flywheel
