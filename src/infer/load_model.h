#pragma once

#include <filesystem>
#include <memory>

#include "backend/backend.h"
#include "data/tokenizer.h"
#include "model/model_config.h"
#include "model/transformer.h"

namespace flywheel {

// The checkpoint that a path means: itself, or the latest one of a run's folder.
std::filesystem::path checkpoint_folder(const std::filesystem::path& path);

// The model that a checkpoint's config.json describes.
ModelConfig read_model_config(const std::filesystem::path& checkpoint);

// Fills the parameters from model.safetensors. Error Data names the file and the tensor that is
// missing or has another shape.
void load_weights(Transformer& model, Backend& backend, const std::filesystem::path& checkpoint);

// The tokenizer that lies beside the weights; "byte" where none does. Error Data if its vocabulary
// is larger than the model's.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& checkpoint,
                                          const ModelConfig& model);

}  // namespace flywheel
