#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "infer/generator.h"

namespace flywheel {

// The bytes of `tokens` after the token `previous`; some tokenizers leave out a space at the start
// of what they decode.
std::string decode_after(const Tokenizer& tokenizer, std::int32_t previous,
                         std::span<const std::int32_t> tokens);

// The continuations of some texts, one each, as whole UTF-8 text. A text begins a document, as in
// training; the end of a document ends a continuation.
std::vector<std::string> continue_texts(Transformer& model, const TransformerLimits& limits,
                                        const Tokenizer& tokenizer,
                                        std::span<const std::string> texts,
                                        GenerateOptions options);

// What follows each prompt, greedily, as whole UTF-8 text: up to the end of a text (`stop_tokens`)
// or the first of the strings `until`. The first token is decoded without the prompt before it, as
// lm-evaluation-harness does.
std::vector<std::string> write_until(Transformer& model, const TransformerLimits& limits,
                                     const Tokenizer& tokenizer,
                                     std::span<const std::vector<std::int32_t>> prompts,
                                     std::span<const std::string> until,
                                     const GenerateOptions& options,
                                     const OnFinish& on_finish = {});

}  // namespace flywheel
