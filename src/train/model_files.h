#pragma once

#include <filesystem>

#include "data/tokenizer.h"
#include "model/model_config.h"

namespace flywheel {

// config.json of a checkpoint: what transformers reads, where it knows the architecture, and under
// "flywheel" our own description of the model.
void write_model_config(const std::filesystem::path& path, const ModelConfig& config,
                        const Tokenizer& tokenizer);

}  // namespace flywheel
