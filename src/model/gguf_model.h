#pragma once

#include <filesystem>
#include <memory>

#include "core/file_io.h"
#include "core/gguf.h"
#include "model/model_config.h"
#include "model/weights_source.h"

namespace flywheel {

// A GGUF file of the architecture llama (also Mistral, SmolLM2) or qwen3.
struct GgufModel {
  std::shared_ptr<const Gguf> file;
  ModelConfig config;
  WeightsSource weights;
};

// Error Data or Config names the file, the key or tensor, and what is supported.
GgufModel open_gguf_model(const std::filesystem::path& path);

// Its parts: the model that the metadata describes, and the tensors under Hugging Face's names.
ModelConfig gguf_config(const Gguf& file);
void add_gguf_tensors(const Gguf& file, const ModelConfig& config, WeightsSource& source);

}  // namespace flywheel
