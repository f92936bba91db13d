#pragma once

#include <cstdint>
#include <filesystem>

#include "core/stored_type.h"
#include "infer/load_model.h"

namespace flywheel {

struct ExportOptions {
  StoredType type = StoredType::BF16;                // or F32, F16
  std::int64_t shard_bytes = std::int64_t{5} << 30;  // a file grows no larger, but for one tensor
};

// Writes a folder that transformers opens, where it knows the architecture: config.json,
// generation_config.json, safetensors files, tokenizer.json, tokenizer_config.json. Weights pass
// through a few MiB of memory. Error Config if the folder already has a model; Error Data if a
// tensor is missing, has another shape or does not fit into float16.
void export_model(const OpenedModel& model, const std::filesystem::path& folder,
                  const ExportOptions& options);

}  // namespace flywheel
