#pragma once

#include <string>

#include "model/model_config.h"

namespace flywheel::bench {

// The models that benchmarks run: tiny, 10m, 135m (SmolLM2) and 360m of Llama type, 124m as GPT-2's
// smallest. Error Config for another name.
ModelConfig model_named(const std::string& name);

}  // namespace flywheel::bench
