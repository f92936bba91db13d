#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "eval/request.h"

namespace flywheel {

struct EncodingOptions {
  std::int32_t prefix_token = -1;  // beginning of sequence, else end of document; -1: none
  bool add_prefix = false;         // to every text, unless it begins with that token already
  std::int64_t max_length = 0;     // tokens that a model reads at once
};

// Texts to token requests as lm-evaluation-harness makes them (docs/evaluation.md).
class RequestEncoder {
 public:
  RequestEncoder(const Tokenizer& tokenizer, const EncodingOptions& options);

  std::vector<std::int32_t> tokens_of(std::string_view text) const;

  // Whitespace that ends the context goes over to the continuation; the continuation's tokens are
  // those of both texts together from the context's number of tokens on. An empty context is the
  // prefix token. Only the last max_length + 1 tokens remain. Error Data if no token is left for
  // the continuation, or more than max_length.
  TokenRequest encode(const TextRequest& request) const;

  // The whole text in windows of max_length: the prefix token goes before the first, and every next
  // one scores `stride` new tokens after max_length - stride + 1 old ones. stride = max_length is
  // the harness's rolling log-likelihood.
  std::vector<TokenRequest> encode_rolling(std::string_view text, std::int64_t stride) const;

  const EncodingOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  TokenRequest encode_alone(std::string_view continuation) const;
  TokenRequest cut_to_fit(TokenRequest request) const;
  void require_prefix() const;

  const Tokenizer& tokenizer_;
  EncodingOptions options_;
};

}  // namespace flywheel
