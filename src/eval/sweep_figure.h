#pragma once

#include <string>
#include <vector>

#include "eval/sweep.h"

namespace flywheel {

// Score against mean visible keys as an SVG: a panel for each column that has cells and one for the
// mean of their accuracies, a line for each pattern, full attention as a level. Error Config if
// there is nothing to draw or no gnuplot.
std::string sweep_figure(const SweepTable& table, const std::vector<SweepSetting>& settings,
                         const std::vector<std::string>& columns);

}  // namespace flywheel
