#include "infer/continue_texts.h"

#include "data/utf8.h"

namespace flywheel {

std::vector<std::string> continue_texts(Transformer& model, const TransformerLimits& limits,
                                        const Tokenizer& tokenizer,
                                        std::span<const std::string> texts,
                                        GenerateOptions options) {
  const std::int32_t end = tokenizer.end_of_document();
  options.stop_tokens.push_back(end);
  std::vector<GenerateRequest> requests;
  for (const std::string& text : texts) {
    GenerateRequest& request = requests.emplace_back();
    if (end >= 0) request.prompt.push_back(end);
    tokenizer.encode(text, request.prompt);
  }
  std::vector<std::string> results;
  for (const Continuation& continuation : generate(model, limits, requests, options)) {
    results.push_back(replace_invalid_utf8(tokenizer.decode(continuation.tokens)));
  }
  return results;
}

}  // namespace flywheel
