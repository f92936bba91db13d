#pragma once

#include <string>
#include <utility>
#include <vector>

namespace flywheel {

// Points that are joined by a line; what is not finite leaves a gap.
struct Series {
  std::string title;
  std::vector<std::pair<double, double>> points;  // x, y
  bool dashed = false;
  int color = -1;  // of the palette; -1: the place among the series
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;  // powers of two
  bool log_y = false;
  bool short_x = false;  // 2M for 2000000
  std::vector<Series> series;
  int width = 640;
  int height = 360;
};

// An SVG file on white. Long series are thinned out to what can be seen. Error Config if gnuplot is
// not installed or no series has a point.
std::string chart_file(const Chart& chart);

// The same to stand in an HTML page: axes and text have the colour of the text around it, on
// nothing, so that it is readable in light and dark; `id` is its own within the page.
std::string chart_in_page(const Chart& chart, const std::string& id);

}  // namespace flywheel
