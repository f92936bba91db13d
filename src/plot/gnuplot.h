#pragma once

#include <string>

namespace flywheel {

// What gnuplot draws as SVG for a script, which names no terminal and no output. Error Config if
// gnuplot is not installed or refuses the script.
std::string gnuplot_svg(const std::string& script, int width, int height);

}  // namespace flywheel
