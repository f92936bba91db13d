#pragma once

#include <filesystem>

#include "model/model_config.h"
#include "model/weights_source.h"

namespace flywheel {

// A model file of llama2.c, version 0: seven 32-bit numbers, then float32 weights in a fixed order.
struct Llama2cModel {
  ModelConfig config;
  WeightsSource weights;
};

// Error Data if the header is not one or the size of the file does not go with it.
Llama2cModel open_llama2c_model(const std::filesystem::path& path);

// Whether the file has the header and the size of such a model.
bool is_llama2c_model(const std::filesystem::path& path);

}  // namespace flywheel
