#pragma once

#include <string>

#include "train/console.h"
#include "train/factory.h"
#include "train/train_config.h"

namespace flywheel {

// What is shown of a run before it starts. The config is resolved.

// Every value, aligned; those that are not the default are bold, or marked with * where bold is not
// shown.
std::string config_table(const RunConfig& config, const Console& console);
// Names and shapes, layers folded together.
std::string parameter_table(const ModelConfig& config);
// What is allocated, by purpose.
std::string memory_table(const RunConfig& config);
// Parameters, operations and tokens.
std::string cost_table(const RunConfig& config, const PeakFlops& peak);

}  // namespace flywheel
