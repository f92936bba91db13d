#pragma once

#include <cstdint>
#include <filesystem>

#include "data/tokenizer.h"

namespace flywheel {

// The token that stands before a text which has nothing before it: the bos_token of the folder's
// tokenizer_config.json, else its eos_token, else the tokenizer's end of document; -1: none.
std::int32_t prefix_token(const std::filesystem::path& folder, const Tokenizer& tokenizer);

}  // namespace flywheel
