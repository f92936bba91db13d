#include "infer/generator.h"

#include <algorithm>

#include "cpu/cpu_backend.h"
#include "infer/continue_texts.h"
#include "support/catch.h"
#include "support/character_tokenizer.h"
#include "support/errors.h"
#include "support/model_cases.h"
#include "support/text.h"

namespace flywheel {
namespace {

using Ids = std::vector<std::int32_t>;

// A small gated model with weights that make its choices plain.
struct Fixture {
  std::unique_ptr<Backend> backend = make_cpu_backend(2);
  ModelConfig config = test::tiny_model();
  std::unique_ptr<Transformer> model;
  TransformerLimits limits;

  Fixture() {
    config.attention.pattern.resize(1);
    config.attention.pattern[0].set_short_form("sa_swa");
    config.attention.window = 5;
    use({.max_tokens = 24,
         .max_sequences = 3,
         .training = false,
         .cache_slots = 3,
         .cache_length = 24});
  }
  void use(const TransformerLimits& sizes) {
    limits = sizes;
    model = std::make_unique<Transformer>(config, *backend, limits);
    test::fill_parameters(*model, *backend, 3);
  }
  std::vector<Continuation> run(const std::vector<GenerateRequest>& requests,
                                const GenerateOptions& options, const OnToken& on_token = {},
                                const OnFinish& on_finish = {}) {
    return generate(*model, limits, requests, options, on_token, on_finish);
  }
};

std::vector<GenerateRequest> some_requests() {
  return {{{1, 2, 3}},
          {{60}},
          {{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, 1},
          {{1, 2, 3}, 1},
          {{20, 21}},
          {{30, 31, 32, 33}},
          {{9, 9, 9, 9, 9, 9, 9, 9}}};
}

TEST_CASE("a continuation does not depend on its batch") {
  Fixture f;
  const auto requests = some_requests();
  for (const double temperature : {0.0, 0.9}) {
    for (const auto attention : {DecodeAttention::Full, DecodeAttention::Window}) {
      GenerateOptions options{.sampling = {.repetition_penalty = 1.1, .temperature = temperature},
                              .tokens = 10,
                              .attention = attention};
      const auto together = f.run(requests, options);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        CAPTURE(i, temperature);
        REQUIRE(together[i].tokens.size() == 10);
        REQUIRE(f.run({requests[i]}, options)[0].tokens == together[i].tokens);
      }
      REQUIRE((together[0].tokens == together[3].tokens) == (temperature == 0));
    }
  }
}

TEST_CASE("tokens and ends are told as they come, and ended requests make room") {
  Fixture f;
  const auto requests = some_requests();
  std::vector<Ids> heard(requests.size());
  std::vector<std::size_t> ended;
  std::int64_t open = 0;
  const auto results = f.run(
      requests, {.tokens = 6},
      [&](std::size_t request, std::int32_t token) {
        if (heard[request].empty()) ++open;
        REQUIRE(open <= f.limits.cache_slots);
        heard[request].push_back(token);
        return !(request == 1 && heard[1].size() == 2);
      },
      [&](std::size_t request, const Continuation& continuation) {
        REQUIRE(continuation.tokens == heard[request]);
        ended.push_back(request);
        --open;
      });
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    REQUIRE(results[i].tokens == heard[i]);
    REQUIRE(results[i].tokens.size() == (i == 1 ? 2 : 6));
    REQUIRE(results[i].reason == (i == 1 ? FinishReason::Caller : FinishReason::Tokens));
  }
  REQUIRE(ended.front() == 1);
  std::sort(ended.begin(), ended.end());
  REQUIRE(ended == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("a stop token ends a continuation and is not part of it") {
  Fixture f;
  const GenerateRequest request{{1, 2, 3}};
  const GenerateOptions greedy{.sampling = {.temperature = 0}, .tokens = 12};
  const Ids all = f.run({request}, greedy)[0].tokens;
  GenerateOptions stopping = greedy;
  stopping.stop_tokens = {-1, all[7]};
  const auto first = std::find(all.begin(), all.end(), all[7]);
  const Continuation stopped = f.run({request}, stopping)[0];
  REQUIRE(stopped.tokens == Ids(all.begin(), first));
  REQUIRE(stopped.reason == FinishReason::StopToken);
}

TEST_CASE("a continuation ends where the context is full") {
  Fixture f;
  const Continuation full = f.run({{Ids(20, 7)}}, {.tokens = 100})[0];
  REQUIRE(full.tokens.size() == 5);  // the last one needs no place in the cache
  REQUIRE(full.reason == FinishReason::Context);
  REQUIRE(f.run({{Ids(24, 7)}}, {.tokens = 100})[0].tokens.size() == 1);
  REQUIRE(f.run({{Ids(24, 7)}}, {.tokens = 0})[0].tokens.empty());
}

TEST_CASE("wrong requests are refused") {
  Fixture f;
  const auto refused = [&](const std::vector<GenerateRequest>& requests,
                           const GenerateOptions& options, const std::string& what) {
    test::require_contains(test::error_of([&] { f.run(requests, options); }), what);
  };
  refused({{{1}}, {{}}}, {}, "prompt 2 is empty: give at least one token");
  refused({{Ids(25, 1)}}, {}, "prompt 1 has 25 tokens, more than the context of 24: shorten it");
  refused({{{1}}}, {.tokens = -1}, "tokens must be 0 or more, not -1");
  refused({{{1}}}, {.sampling = {.top_p = 2}}, "top-p must be above 0");
  refused({{{61}}}, {}, "token id 61");
}

TEST_CASE(
    "limits hold the longest prompt with its continuation, and no more sequences than asked") {
  const ModelConfig config = test::tiny_model();  // 32 positions
  const std::vector<std::int64_t> lengths{3, 7, 5};
  const TransformerLimits limits = generation_limits(config, lengths, 10, 2);
  CHECK(limits.cache_slots == 2);
  CHECK(limits.max_sequences == 2);
  CHECK(limits.cache_length == 17);
  CHECK(limits.max_tokens == 15);
  CHECK(generation_limits(config, lengths, 100, 9).cache_length == 32);
  CHECK(generation_limits(config, lengths, 100, 9).cache_slots == 3);
  test::require_contains(test::error_of([&] {
                           generation_limits(config, std::vector<std::int64_t>{3, 33}, 1, 1);
                         }),
                         "prompt 2 has 33 tokens, more than the context of 32");
}

TEST_CASE("texts are written up to a stop string") {
  Fixture f;
  const test::CharacterTokenizer tokenizer;
  const std::vector<Ids> prompts{{1, 2, 3}, {60}, {20, 21}};
  const GenerateOptions options{.sampling = {.temperature = 0}, .tokens = 12};
  const auto write = [&](const std::vector<std::string>& until) {
    return write_until(*f.model, f.limits, tokenizer, prompts, until, options);
  };
  const std::vector<std::string> whole = write({});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    REQUIRE(whole[i] == tokenizer.decode(f.run({{prompts[i]}}, options)[0].tokens));
    REQUIRE(whole[i].size() == 12);
  }
  const std::string stop = whole[1].substr(4, 2);
  const std::vector<std::string> cut = write({"no such text", stop});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    REQUIRE(cut[i] == whole[i].substr(0, whole[i].find(stop)));
  }
  REQUIRE(cut[1].size() <= 4);
}

TEST_CASE("the key-value cache is a line of the memory table") {
  Fixture f;
  const auto lines = Transformer::memory(f.config, f.limits);
  const auto line = std::find_if(lines.begin(), lines.end(),
                                 [](const MemoryLine& l) { return l.name == "key-value cache"; });
  REQUIRE(line != lines.end());
  // keys and values, layers, sequences, tokens, heads, head size, bytes
  REQUIRE(line->bytes == 2 * 2 * 3 * 24 * 4 * 8 * 4);
}

}  // namespace
}  // namespace flywheel
