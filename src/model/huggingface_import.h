#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model_config.h"

namespace flywheel {

// The model that a config.json of transformers (4 or 5) describes: model_type llama, mistral,
// qwen3, qwen3_moe or gpt2. A field that is absent has the value that transformers gives it.
// Error Config names `source`, the field, its value and what is supported.
ModelConfig import_huggingface(std::string_view json, const std::string& source);

// The ids of the key "bos_token_id" or "eos_token_id": a number, a list of them, or none.
std::vector<std::int32_t> token_ids(std::string_view json, const std::string& key,
                                    const std::string& source);

}  // namespace flywheel
