#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "eval/request.h"
#include "model/transformer.h"

namespace flywheel {

// Tokens done and tokens to do.
using EvaluationProgress = std::function<void(std::int64_t done, std::int64_t total)>;

// Scores requests with an inference model, packed without padding, the longest first; equal inputs
// run once, and so does a context of several requests if the limits have attention rows (for
// models whose is_prefix_consistent()). A request's scores have the same bits whatever it is packed
// with: its permutations depend on seed, draw and its length alone (the config's patterns must not
// be per_sequence).
class Scorer {
 public:
  Scorer(Transformer& model, const TransformerLimits& limits, std::uint64_t seed);

  // For each request the scores of its scored tokens. Error Config if one does not fit into a pass;
  // Error Data if the model gives a loss that is not finite.
  std::vector<std::vector<TokenScore>> score(std::span<const TokenRequest> requests,
                                             std::uint32_t draw = 0,
                                             const EvaluationProgress& progress = {});

 private:
  Transformer& model_;
  TransformerLimits limits_;
  std::uint64_t seed_;
};

// Sums in double.
Score total(std::span<const TokenScore> scores);

// Mean number of visible keys of a query over the inputs of the requests and the layers (sa: its
// expectation over permutations).
double mean_visible_keys(const ModelConfig& config, std::span<const TokenRequest> requests);

}  // namespace flywheel
