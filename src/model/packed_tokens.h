#pragma once

#include "model/transformer.h"

namespace flywheel {

// Error Data if the tokens do not fit the model: an id beyond the vocabulary, a position beyond the
// longest sequence, offsets that do not ascend, a micro-batch that is too large.
void check_tokens(const PackedTokens& tokens, const ModelConfig& config,
                  const TransformerLimits& limits);

}  // namespace flywheel
