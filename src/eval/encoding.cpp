#include "eval/encoding.h"

#include <algorithm>

#include "core/error.h"
#include "eval/python_text.h"

namespace flywheel {

RequestEncoder::RequestEncoder(const Tokenizer& tokenizer, const EncodingOptions& options)
    : tokenizer_(tokenizer), options_(options) {
  require(options.max_length >= 1, ErrorKind::Config, "max_length is {}; expected 1 or more",
          options.max_length);
  require(!options.add_prefix || options.prefix_token >= 0, ErrorKind::Config,
          "the tokenizer has no token that begins a text");
}

std::vector<std::int32_t> RequestEncoder::tokens_of(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokenizer_.encode(text, tokens);
  if (options_.add_prefix && (tokens.empty() || tokens.front() != options_.prefix_token)) {
    tokens.insert(tokens.begin(), options_.prefix_token);
  }
  return tokens;
}

TokenRequest RequestEncoder::encode(const TextRequest& request) const {
  if (request.context.empty()) return encode_alone(request.continuation);
  TokenRequest result{.tokens = tokens_of(python::rstrip(request.context))};
  const std::vector<std::int32_t> whole = tokens_of(request.context + request.continuation);
  result.first_scored = std::ssize(result.tokens);
  require(result.first_scored > 0, ErrorKind::Data, "the context is only whitespace");
  const std::int64_t scored = std::ssize(whole) - result.first_scored;
  require(scored > 0, ErrorKind::Data,
          "no token is left for the continuation \"{}\": one spans the end of the context",
          request.continuation);
  result.tokens.insert(result.tokens.end(), whole.end() - scored, whole.end());
  return cut_to_fit(std::move(result));
}

TokenRequest RequestEncoder::encode_alone(std::string_view continuation) const {
  require_prefix();
  TokenRequest result;
  tokenizer_.encode(continuation, result.tokens);
  if (result.tokens.empty() || result.tokens.front() != options_.prefix_token) {
    result.tokens.insert(result.tokens.begin(), options_.prefix_token);
  }
  require(result.tokens.size() > 1, ErrorKind::Data, "the continuation has no tokens");
  return cut_to_fit(std::move(result));
}

TokenRequest RequestEncoder::cut_to_fit(TokenRequest request) const {
  const std::int64_t scored = std::ssize(request.tokens) - request.first_scored;
  require(scored <= options_.max_length, ErrorKind::Data,
          "the continuation has {} tokens; the model reads {} at once", scored,
          options_.max_length);
  request.cut = std::max<std::int64_t>(0, std::ssize(request.tokens) - (options_.max_length + 1));
  request.tokens.erase(request.tokens.begin(), request.tokens.begin() + request.cut);
  request.first_scored -= request.cut;
  return request;
}

void RequestEncoder::require_prefix() const {
  require(options_.prefix_token >= 0, ErrorKind::Data,
          "the tokenizer has neither a token that begins nor one that ends a text: nothing could "
          "predict the first token");
}

std::vector<TokenRequest> RequestEncoder::encode_rolling(std::string_view text,
                                                         std::int64_t stride) const {
  require_prefix();
  require(1 <= stride && stride <= options_.max_length, ErrorKind::Config,
          "the stride is {}; expected 1 to max_length, {}", stride, options_.max_length);
  std::vector<std::int32_t> tokens = tokens_of(text);
  tokens.insert(tokens.begin(), options_.prefix_token);
  const std::int64_t count = std::ssize(tokens);
  std::vector<TokenRequest> windows;
  for (std::int64_t begin = 1; begin < count;) {
    const std::int64_t most = windows.empty() ? options_.max_length : stride;
    const std::int64_t end = std::min(count, begin + most);
    const std::int64_t first = std::max<std::int64_t>(0, end - 1 - options_.max_length);
    windows.push_back(
        {.tokens = {tokens.begin() + first, tokens.begin() + end}, .first_scored = begin - first});
    begin = end;
  }
  return windows;
}

}  // namespace flywheel
