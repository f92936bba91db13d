#pragma once

#include <string>
#include <vector>

#include "report/run_record.h"

namespace flywheel {

// One self-contained HTML page on one or several runs: summary, curves, evaluations, samples,
// config, memory and parameters. Error Config if gnuplot is not installed.
std::string report_page(const std::vector<RunRecord>& runs);

}  // namespace flywheel
