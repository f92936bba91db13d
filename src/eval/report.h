#pragma once

#include <string>

#include "eval/results_json.h"

namespace flywheel {

// What `evaluate` prints at its end: the options, the tables and what queries saw.
std::string report(const EvaluationResults& results, const EvaluationRecord& record);

}  // namespace flywheel
