#include "analysis/mixing_report.h"

#include <fmt/format.h>

#include "core/json_fields.h"

namespace flywheel {

std::string mixing_csv(const std::vector<MixingResult>& results) {
  std::string csv = "pattern,layer,first,second\n";
  for (const MixingResult& result : results) {
    int layer = 0;
    for (const SingularValues& values : result.layers) {
      csv += fmt::format("{},{},{},{}\n", result.pattern, ++layer, values.first, values.second);
    }
  }
  return csv;
}

std::string mixing_json(const std::vector<MixingResult>& results,
                        const std::vector<EstimatorError>& errors, const MixingOptions& options) {
  Json patterns = Json::array(), windows = Json::array();
  for (const MixingResult& result : results) {
    Json layers = Json::array();
    for (const SingularValues& values : result.layers) {
      layers.push_back({{"first", values.first}, {"second", values.second}});
    }
    patterns.push_back({{"pattern", result.pattern}, {"layers", layers}});
  }
  for (const EstimatorError& error : errors) {
    windows.push_back(
        {{"window", error.window}, {"bias", error.bias}, {"variance", error.variance}});
  }
  return Json{{"n", options.n},
              {"seed", options.seed},
              {"causal", options.mask == Mask::Causal},
              {"singular_values", patterns},
              {"estimator", windows}}
             .dump(2) +
         "\n";
}

Chart mixing_chart(const std::vector<MixingResult>& results, const MixingOptions& options) {
  Chart chart{.title = fmt::format("Products of uniform attention, {} tokens", options.n),
              .x_label = "layers",
              .y_label = "second singular value / first",
              .log_y = true};
  for (const MixingResult& result : results) {
    Series series{.title = result.pattern};
    double layer = 0;
    for (const SingularValues& values : result.layers) {
      ++layer;
      if (values.second > kSmallestRatio * values.first) {
        series.points.emplace_back(layer, values.second / values.first);
      }
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace flywheel
