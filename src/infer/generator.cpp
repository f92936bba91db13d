#include "infer/generator.h"

#include <algorithm>

#include "core/checksum.h"
#include "core/error.h"
#include "model/sequence_packer.h"

namespace flywheel {
namespace {

// A request that is being continued, in a slot of the key-value cache.
struct Live {
  std::size_t request = 0;
  std::int32_t slot = 0;
  std::vector<std::int32_t> history;  // prompt and continuation
  std::int64_t prompt_tokens = 0;
  std::uint32_t key = 0;  // of the prompt, in the random stream

  std::int64_t generated() const { return std::ssize(history) - prompt_tokens; }
};

void check_prompt(std::size_t index, std::int64_t length, std::int64_t context) {
  require(length > 0, ErrorKind::Config, "prompt {} is empty: give at least one token", index + 1);
  require(length <= context, ErrorKind::Config,
          "prompt {} has {} tokens, more than the context of {}: shorten it", index + 1, length,
          context);
}

void check_requests(std::span<const GenerateRequest> requests, const GenerateOptions& options,
                    const TransformerLimits& limits) {
  check_sample_options(options.sampling);
  require(options.tokens >= 0, ErrorKind::Config, "tokens must be 0 or more, not {}",
          options.tokens);
  const std::int64_t most = std::min(limits.cache_length, limits.max_tokens);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    check_prompt(i, std::ssize(requests[i].prompt), most);
  }
}

class Generation {
 public:
  Generation(Transformer& model, const TransformerLimits& limits,
             std::span<const GenerateRequest> requests, const GenerateOptions& options,
             const OnToken& on_token, const OnFinish& on_finish)
      : model_(model),
        limits_(limits),
        requests_(requests),
        options_(options),
        on_token_(on_token),
        on_finish_(on_finish),
        results_(requests.size()) {
    const std::int64_t slots =
        std::min({limits.cache_slots, limits.max_sequences, limits.max_tokens});
    for (std::int64_t slot = slots; slot-- > 0;) {
      free_slots_.push_back(static_cast<std::int32_t>(slot));
    }
  }

  std::vector<Continuation> run() {
    while (next_ < requests_.size() || !live_.empty()) {
      if (next_ < requests_.size() && !free_slots_.empty()) admit();
      if (!live_.empty()) advance();
    }
    return std::move(results_);
  }

 private:
  // Prefills as many of the next prompts as there is room for, at least one.
  void admit() {
    packer_.clear();
    const std::size_t first = live_.size();
    while (next_ < requests_.size() && !free_slots_.empty()) {
      const std::vector<std::int32_t>& prompt = requests_[next_].prompt;
      const std::int64_t length = std::ssize(prompt);
      if (packer_.tokens() > 0 && packer_.tokens() + length > limits_.max_tokens) break;
      no_targets_.resize(prompt.size(), -1);
      packer_.add(prompt, std::span(no_targets_).first(prompt.size()));
      const auto key = static_cast<std::uint32_t>(checksum(std::as_bytes(std::span(prompt))));
      live_.push_back({next_++, free_slots_.back(), prompt, length, key});
      free_slots_.pop_back();
    }
    const PermutationDraw draw{.seed = options_.sampling.seed,
                               .stream = RandomStream::kEvaluationPermutation};
    model_.prefill(packer_.view(), draw, slots_of(first), make_room(live_.size() - first));
    take_tokens(first);
  }

  // Decodes one token of every live sequence.
  void advance() {
    std::vector<std::int32_t> tokens;
    for (const Live& live : live_) tokens.push_back(live.history.back());
    model_.decode(tokens, slots_of(0), options_.attention, make_room(live_.size()));
    take_tokens(0);
  }

  std::vector<std::int32_t> slots_of(std::size_t first) const {
    std::vector<std::int32_t> slots;
    for (std::size_t i = first; i < live_.size(); ++i) slots.push_back(live_[i].slot);
    return slots;
  }

  std::span<float> make_room(std::size_t rows) {
    logits_.resize(rows * static_cast<std::size_t>(model_.config().vocab_size));
    return logits_;
  }

  // Draws a token for each live sequence from `first` on; those that end give their slots back.
  void take_tokens(std::size_t first) {
    const auto vocabulary = static_cast<std::size_t>(model_.config().vocab_size);
    std::size_t kept = first;
    for (std::size_t i = first; i < live_.size(); ++i) {
      const auto row = std::span(logits_).subspan((i - first) * vocabulary, vocabulary);
      if (take_token(live_[i], row)) {
        if (kept != i) live_[kept] = std::move(live_[i]);
        ++kept;
      } else {
        free_slots_.push_back(live_[i].slot);
      }
    }
    live_.resize(kept);
  }

  // False: the continuation has ended.
  bool take_token(Live& live, std::span<const float> logits) {
    if (live.generated() == options_.tokens) return finish(live, FinishReason::Tokens);
    const SampleDraw draw{.prompt = live.key,
                          .sample = requests_[live.request].sample,
                          .index = static_cast<std::uint64_t>(live.generated())};
    const std::int32_t token = sample_token(logits, live.history, options_.sampling, draw);
    const auto& stops = options_.stop_tokens;
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
      return finish(live, FinishReason::StopToken);
    }
    live.history.push_back(token);
    if (on_token_ && !on_token_(live.request, token)) return finish(live, FinishReason::Caller);
    if (live.generated() == options_.tokens) return finish(live, FinishReason::Tokens);
    if (std::ssize(live.history) > limits_.cache_length) {
      return finish(live, FinishReason::Context);
    }
    return true;
  }

  bool finish(const Live& live, FinishReason reason) {
    Continuation& result = results_[live.request];
    result.tokens.assign(live.history.begin() + static_cast<std::ptrdiff_t>(live.prompt_tokens),
                         live.history.end());
    result.reason = reason;
    if (on_finish_) on_finish_(live.request, result);
    return false;
  }

  Transformer& model_;
  const TransformerLimits& limits_;
  std::span<const GenerateRequest> requests_;
  const GenerateOptions& options_;
  const OnToken& on_token_;
  const OnFinish& on_finish_;
  std::vector<Continuation> results_;
  std::size_t next_ = 0;
  std::vector<Live> live_;
  std::vector<std::int32_t> free_slots_;
  SequencePacker packer_;
  std::vector<std::int32_t> no_targets_;
  std::vector<float> logits_;
};

}  // namespace

TransformerLimits generation_limits(const ModelConfig& config,
                                    std::span<const std::int64_t> prompt_lengths,
                                    std::int64_t tokens, std::int64_t together) {
  // Short prompts are read together, up to so many tokens.
  constexpr std::int64_t kPackedTokens = 2048;
  std::int64_t longest = 1;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < prompt_lengths.size(); ++i) {
    const std::int64_t length = prompt_lengths[i];
    check_prompt(i, length, config.max_positions);
    longest = std::max(longest, length);
    all += length;
  }
  const std::int64_t slots = std::clamp<std::int64_t>(together, 1, std::ssize(prompt_lengths));
  const std::int64_t context =
      std::min(config.max_positions, longest + std::max<std::int64_t>(0, tokens));
  return {.max_tokens = std::max({longest, slots, std::min(all, kPackedTokens)}),
          .max_sequences = slots,
          .training = false,
          .cache_slots = slots,
          .cache_length = context};
}

std::vector<Continuation> generate(Transformer& model, const TransformerLimits& limits,
                                   std::span<const GenerateRequest> requests,
                                   const GenerateOptions& options, const OnToken& on_token,
                                   const OnFinish& on_finish) {
  check_requests(requests, options, limits);
  return Generation(model, limits, requests, options, on_token, on_finish).run();
}

}  // namespace flywheel
