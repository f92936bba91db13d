#pragma once

#include "infer/load_model.h"

namespace flywheel {

// From config.json, generation_config.json (whose ids count, where it has any) and
// tokenizer_config.json (add_bos_token) of a folder. A checkpoint of ours, which has no such files,
// begins and ends every text with the tokenizer's end of document.
SpecialTokens read_special_tokens(const std::filesystem::path& folder, const Tokenizer& tokenizer);

// The tokens of a model whose only mark is the tokenizer's end of document.
SpecialTokens document_marks(const Tokenizer& tokenizer);

}  // namespace flywheel
