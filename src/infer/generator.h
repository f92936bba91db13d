#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infer/sample.h"
#include "model/transformer.h"

namespace flywheel {

struct GenerateOptions {
  SampleOptions sampling;
  std::int64_t tokens = 100;              // at most so many after the prompt
  std::vector<std::int32_t> stop_tokens;  // any of them ends a continuation and is not part of it
  DecodeAttention attention = DecodeAttention::Full;
};

struct GenerateRequest {
  std::vector<std::int32_t> prompt;  // not empty
  std::uint32_t sample = 0;          // of several continuations of a prompt
};

// Why a continuation ended.
enum class FinishReason : std::uint8_t {
  Tokens,   // as many tokens as were asked for
  Context,  // the model's context is full
  StopToken,
  Caller,  // on_token said so
};

struct Continuation {
  std::vector<std::int32_t> tokens;
  FinishReason reason = FinishReason::Tokens;
};

// Hears each token of request number `request`; false ends its continuation.
using OnToken = std::function<bool(std::size_t request, std::int32_t token)>;
// Hears the end of a request's continuation, in the order of the ends.
using OnFinish = std::function<void(std::size_t request, const Continuation& continuation)>;

// The limits of an inference-only model that continues prompts of these lengths by up to `tokens`,
// `together` at a time. Error Config if a prompt is empty or longer than the model's context.
TransformerLimits generation_limits(const ModelConfig& config,
                                    std::span<const std::int64_t> prompt_lengths,
                                    std::int64_t tokens, std::int64_t together);

// Continues all prompts, as many at a time as the model's key-value cache has slots; a request
// takes the place of one that ended. A continuation does not depend on the others of its batch.
// `limits` are the model's. Error Config if an option is out of range, or a prompt empty or too
// long.
std::vector<Continuation> generate(Transformer& model, const TransformerLimits& limits,
                                   std::span<const GenerateRequest> requests,
                                   const GenerateOptions& options, const OnToken& on_token = {},
                                   const OnFinish& on_finish = {});

}  // namespace flywheel
