#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/transformer.h"

namespace flywheel {

struct SampleOptions {
  std::int64_t tokens = 100;  // at most this many
  double temperature = 0.8;   // 0 takes the most likely token
  std::int64_t top_k = 0;     // draw among the k most likely; 0 = among all
  std::uint64_t seed = 0;
};

// One token drawn from softmax(logits / temperature): a pure function of its arguments. `index`
// numbers the draws.
std::int32_t sample_token(std::span<const float> logits, const SampleOptions& options,
                          std::int64_t index);

// Continues `prompt` (not empty) until `options.tokens`, the token `stop` (-1: none) or
// `max_tokens`, the length that the model was built for. Every token recomputes the whole sequence.
// `on_token` hears each token as it comes.
std::vector<std::int32_t> generate(Transformer& model, std::span<const std::int32_t> prompt,
                                   const SampleOptions& options, std::int32_t stop,
                                   std::int64_t max_tokens,
                                   const std::function<void(std::int32_t)>& on_token);

}  // namespace flywheel
