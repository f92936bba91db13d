#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_config.h"

namespace flywheel {

// The transformers class that computes what this model computes: "gpt2", "llama", "mistral"
// (sliding window everywhere), "qwen3" (q/k norm; full and sliding layers of one window) or
// "qwen3_moe" (the same with experts); else "flywheel".
std::string huggingface_model_type(const ModelConfig& config);

// What config.json says beside the architecture.
struct HuggingfaceNotes {
  std::int32_t begin = -1;        // the id that begins a text; -1: none
  std::vector<std::int32_t> end;  // the ids that end one
  std::string dtype = "float32";  // of the weights
};

// A config.json: every field that transformers reads, and ours under the key "flywheel".
std::string to_huggingface(const ModelConfig& config, const HuggingfaceNotes& notes = {});

// The model of such a file: our fields where it has them, else what import_huggingface() reads.
// Error Config names `source`, the field and the fault.
ModelConfig from_huggingface(std::string_view json, const std::string& source);

}  // namespace flywheel
