#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flywheel {

// The log-likelihood of a continuation after a context.
struct TextRequest {
  std::string context;
  std::string continuation;
};

// Tokens of which those from `first_scored` (at least 1) on are scored, each given all before it.
struct TokenRequest {
  std::vector<std::int32_t> tokens;
  std::int64_t first_scored = 1;
  std::int64_t cut = 0;  // tokens before these that the model has no room for
};

// Of one scored token.
struct TokenScore {
  float loss = 0;         // -log p, nats
  bool is_greedy = true;  // it is the most likely token (the lowest id of equals)
};

// Of a continuation or a whole text.
struct Score {
  double log_likelihood = 0;
  bool is_greedy = true;  // each token is the most likely one
};

}  // namespace flywheel
