#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace flywheel {

struct Series {
  std::string name;                               // in the legend
  std::vector<std::pair<double, double>> points;  // x, y; on a log axis only positive ones show
  std::string style = "linespoints";              // gnuplot's: lines, points, linespoints, steps
};

struct Axis {
  std::string label;
  bool logarithmic = false;
};

// A plot of some series.
struct Figure {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::string key = "bottom right";  // where the legend goes, in gnuplot's words
};

// Draws it as SVG with gnuplot, a child process, and writes the file atomically. Error Config if
// gnuplot is not installed or fails, Io if the file cannot be written.
void draw_figure(const Figure& figure, const std::filesystem::path& path);

// What gnuplot prints for a script: for figures of other kinds. Errors as above.
std::string run_gnuplot(const std::string& script);

// A gnuplot string in double quotes that shows `text` as it is.
std::string gnuplot_quote(const std::string& text);

// Error Config unless gnuplot is there: before long work whose figure would be lost.
void require_gnuplot();

}  // namespace flywheel
