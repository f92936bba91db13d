#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "model/model_config.h"
#include "train/inspection.h"

namespace flywheel {

struct InspectOptions {
  const Tokenizer* tokenizer = nullptr;  // that token files should be made with; null: any
  std::int64_t show = 0;                 // tokens at the start of a token file to show
  std::optional<std::string> text{};     // whose tokens a tokenizer shows
};

// What lies at `path`: a token file, a safetensors file, a tokenizer, a run's or a model's config,
// a checkpoint, a run's folder, a model of Hugging Face, GGUF or llama2.c; "byte" is the byte
// tokenizer. A folder of token files or safetensors files gives one inspection each. What cannot be
// read is a fault of the inspection; Error Config only where nothing is there or its kind is not
// known. Token files are mapped.
std::vector<Inspection> inspect(const std::string& path, const InspectOptions& options);

// The kinds one by one.
Inspection inspect_shard(const std::filesystem::path& path, const InspectOptions& options);
Inspection inspect_safetensors(const std::filesystem::path& path);
Inspection inspect_tokenizer(const std::string& name, const InspectOptions& options);
Inspection inspect_run_config(const std::filesystem::path& path);
Inspection inspect_model_config(const std::filesystem::path& path);  // Hugging Face's config.json
Inspection inspect_gguf(const std::filesystem::path& path);
Inspection inspect_llama2c(const std::filesystem::path& path);
Inspection inspect_huggingface_folder(const std::filesystem::path& folder);
Inspection inspect_checkpoint(const std::filesystem::path& folder);
Inspection inspect_run(const std::filesystem::path& folder);

// Adds what a valid config says of the model, and what it costs at this length.
void describe_model(const ModelConfig& config, std::int64_t sequence_length, Inspection& out);

}  // namespace flywheel
