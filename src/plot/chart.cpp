#include "plot/chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "plot/gnuplot.h"

namespace flywheel {
namespace {

// Told apart by most colour-blind readers, on white and on black (after Okabe and Ito).
constexpr std::array kPalette{"#0a84c8", "#e06c00", "#009e73", "#cc5fa0",
                              "#b89b00", "#7a6ff0", "#d03b3b", "#6b8e23"};
constexpr std::size_t kMostPoints = 1200;

// Between single quotes nothing has a meaning to gnuplot but they themselves.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') result += c;
    result += c == '\n' ? ' ' : c;
  }
  return result + "'";
}

// Means of neighbours, at most kMostPoints of them.
std::vector<std::pair<double, double>> thinned(
    const std::vector<std::pair<double, double>>& points) {
  const std::size_t stride = (points.size() + kMostPoints - 1) / kMostPoints;
  if (stride <= 1) return points;
  std::vector<std::pair<double, double>> result;
  for (std::size_t begin = 0; begin < points.size(); begin += stride) {
    const std::size_t end = std::min(begin + stride, points.size());
    std::pair<double, double> mean{0, 0};
    for (std::size_t i = begin; i < end; ++i) {
      mean.first += points[i].first / double(end - begin);
      mean.second += points[i].second / double(end - begin);
    }
    result.push_back(mean);
  }
  return result;
}

std::string data_block(const Series& series, std::size_t number) {
  std::string block = fmt::format("$series{} << END\n", number);
  for (const auto& [x, y] : thinned(series.points)) {
    if (std::isfinite(x) && std::isfinite(y)) {
      block += fmt::format("{} {}\n", x, y);
    } else {
      block += "\n";
    }
  }
  return block + "END\n";
}

std::string script_of(const Chart& chart) {
  std::string script = fmt::format(
      "set title {} noenhanced\nset xlabel {} noenhanced\nset ylabel {} noenhanced\n"
      "set grid lt 1 lw 0.4 lc rgb '#999999'\nset key bottom outside center horizontal noenhanced\n"
      "set border 3\nset tics nomirror\n",
      quoted(chart.title), quoted(chart.x_label), quoted(chart.y_label));
  if (chart.log_x) script += "set logscale x 2\n";
  if (chart.log_y) script += "set logscale y 2\n";
  if (chart.short_x) script += "set format x '%.1s%c'\n";
  std::string plots;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    if (series.points.empty()) continue;
    script += data_block(series, i);
    const auto color = series.color < 0 ? i : static_cast<std::size_t>(series.color);
    plots += fmt::format(
        "{}$series{} using 1:2 with {} lw 1.8 pt 7 ps 0.4 dt {} lc rgb '{}' title {}",
        plots.empty() ? "plot " : ", ", i, series.points.size() <= 40 ? "linespoints" : "lines",
        series.dashed ? 2 : 1, kPalette[color % kPalette.size()], quoted(series.title));
  }
  require(!plots.empty(), ErrorKind::Config, "nothing to draw in the chart '{}'", chart.title);
  return script + plots + "\n";
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string chart_file(const Chart& chart) {
  std::string svg = gnuplot_svg(script_of(chart), chart.width, chart.height);
  const std::string canvas = fmt::format("height=\"{}\" fill=\"none\"", chart.height);
  const std::size_t at = svg.find(canvas);
  if (at != std::string::npos) svg.replace(at + canvas.size() - 5, 4, "white");
  return svg;
}

std::string chart_in_page(const Chart& chart, const std::string& id) {
  std::string svg = gnuplot_svg(script_of(chart), chart.width, chart.height);
  svg.erase(0, svg.find("<svg"));
  replace_all(svg, "'black'", "'currentColor'");
  replace_all(svg, "\"black\"", "\"currentColor\"");
  for (const char* reference : {"id='", "id=\"", "href='#", "url(#"}) {
    replace_all(svg, reference, reference + id + "_");
  }
  return svg;
}

}  // namespace flywheel
