#pragma once

#include "data/json_node.h"
#include "data/normalizer.h"
#include "data/pretokenizer.h"

namespace flywheel {

// The normalizer and pre_tokenizer of a tokenizer.json. Error Data names a component that is not
// supported.
NormalizerPtr read_normalizer(const JsonNode& node);  // null for null
PreTokenizerPtr read_byte_level_pretokenizer(const JsonNode& node);

}  // namespace flywheel
