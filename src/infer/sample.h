#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flywheel {

// How the next token is drawn. The steps run in this order, as in Hugging Face's generate: penalty,
// temperature, top-k, top-p, min-p.
struct SampleOptions {
  double repetition_penalty = 1;  // positive logits of tokens seen before are divided by it,
                                  // negative ones multiplied
  double temperature = 0.8;       // divides the logits; 0: take the most likely token
  std::int64_t top_k = 0;         // keep the k most likely and those equal to the last; 0: all
  double top_p = 1;               // keep the fewest, most likely first, that have this probability
  double min_p = 0;               // keep those at least this likely beside the most likely one
  std::uint64_t seed = 0;
};

// Error Config names the option and its range.
void check_sample_options(const SampleOptions& options);

// Which random number a draw takes, beside the seed.
struct SampleDraw {
  std::uint32_t prompt = 0;  // differs between prompts, so that they do not share their luck
  std::uint32_t sample = 0;  // of several continuations of a prompt
  std::uint64_t index = 0;   // of the token in its continuation
};

struct Candidate {
  std::int32_t token = 0;
  double weight = 0;  // in proportion to its probability; the most likely one has 1
};

// The tokens that may be drawn, by ascending id; with temperature 0 the most likely one (of equals
// the lowest id). `history`: the tokens of prompt and continuation. Error Data if a logit is NaN or
// none is finite.
std::vector<Candidate> sample_candidates(std::span<const float> logits,
                                         std::span<const std::int32_t> history,
                                         const SampleOptions& options);

// One token, a pure function of the arguments.
std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> history,
                          const SampleOptions& options, const SampleDraw& draw);

}  // namespace flywheel
