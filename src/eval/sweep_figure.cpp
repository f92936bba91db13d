#include "eval/sweep_figure.h"

#include <algorithm>

#include "core/error.h"
#include "eval/sweep_tables.h"
#include "plot/chart.h"

namespace flywheel {
namespace {

using Point = std::pair<double, double>;

// A panel's point of each setting that has one.
using Points = std::vector<std::pair<std::string, Point>>;  // pattern, (visible keys, score)

Points points_of_column(const SweepTable& table, const std::vector<SweepSetting>& settings,
                        const std::string& column) {
  Points points;
  for (const SweepSetting& setting : settings) {
    const SweepCell* cell = table.find(setting, column);
    if (cell == nullptr) continue;
    const SweepMetric& metric = headline(*cell);
    const double factor = higher_is_better(metric.name) ? 100 : 1;
    points.push_back({setting.pattern, {cell->mean_visible_keys, factor * metric.value}});
  }
  return points;
}

Points points_of_mean(const SweepTable& table, const std::vector<SweepSetting>& settings,
                      const std::vector<std::string>& columns) {
  Points points;
  for (const SweepSetting& setting : settings) {
    const auto mean = mean_of_columns(table, setting, columns);
    if (mean) points.push_back({setting.pattern, {mean->visible_keys, 100 * mean->accuracy}});
  }
  return points;
}

// A level from the least to the most visible keys.
Series level(const Points& points, const Point& full) {
  Series series{.title = "full", .dashed = true};
  const auto [least, most] = std::minmax_element(
      points.begin(), points.end(),
      [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  series.points = {{least->second.first, full.second}, {most->second.first, full.second}};
  return series;
}

std::string y_label(const SweepTable& table, const std::string& column) {
  for (const SweepCell& cell : table.cells) {
    if (cell.task != column) continue;
    const std::string& name = headline(cell).name;
    return higher_is_better(name) ? name + ", %" : name;
  }
  return "";
}

Chart panel(const std::string& title, const std::string& y_label, const Points& points,
            const std::vector<std::string>& patterns) {
  Chart chart{.title = title,
              .x_label = "mean visible keys of a query",
              .y_label = y_label,
              .log_x = true,
              .width = 420,
              .height = 320};
  for (const std::string& pattern : patterns) {
    Series series{.title = pattern};
    for (const auto& [of, point] : points) {
      if (of == pattern) series.points.push_back(point);
    }
    if (pattern == "full" && !series.points.empty()) series = level(points, series.points[0]);
    std::sort(series.points.begin(), series.points.end());
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

std::string sweep_figure(const SweepTable& table, const std::vector<SweepSetting>& settings,
                         const std::vector<std::string>& columns) {
  std::vector<std::string> patterns;
  for (const SweepSetting& setting : settings) {
    const auto known = std::find(patterns.begin(), patterns.end(), setting.pattern);
    if (known == patterns.end()) patterns.push_back(setting.pattern);
  }
  std::vector<Chart> panels;
  for (const std::string& column : columns) {
    const Points points = points_of_column(table, settings, column);
    if (points.empty()) continue;
    panels.push_back(panel(column, y_label(table, column), points, patterns));
  }
  require(!panels.empty(), ErrorKind::Config, "no cell of the sweep is done: nothing to draw");
  const Points means = points_of_mean(table, settings, columns);
  if (columns.size() > 1 && !means.empty()) {
    panels.push_back(panel("mean of all accuracies", "accuracy, %", means, patterns));
  }
  return chart_sheet(panels, static_cast<int>(std::min<std::size_t>(3, panels.size())));
}

}  // namespace flywheel
