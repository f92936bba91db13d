#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/model_config.h"

namespace flywheel {

// The transformers class that computes what this model computes: "gpt2", "llama", "mistral"
// (sliding window everywhere) or "qwen3" (q/k norm; full and sliding layers of one window); else
// "flywheel".
std::string huggingface_model_type(const ModelConfig& config);

// A checkpoint's config.json: every field that transformers reads, and ours under the key
// "flywheel". `end_of_text`: the tokenizer's id, written as beginning and end of text.
std::string to_huggingface(const ModelConfig& config, std::optional<std::int64_t> end_of_text = {});

// The model of such a file: our fields where it has them, else what import_huggingface() reads.
// Error Config names `source`, the field and the fault.
ModelConfig from_huggingface(std::string_view json, const std::string& source);

}  // namespace flywheel
