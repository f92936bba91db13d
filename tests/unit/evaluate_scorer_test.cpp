#include <algorithm>
#include <cmath>
#include <random>

#include "core/error.h"
#include "cpu/cpu_backend.h"
#include "eval/encoding.h"
#include "eval/evaluation.h"
#include "eval/scorer.h"
#include "support/catch.h"
#include "support/character_tokenizer.h"
#include "support/errors.h"
#include "support/model_cases.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

std::string text_of(const std::vector<std::int32_t>& tokens) {
  return {tokens.begin(), tokens.end()};
}

// "inputs|scored" of each window.
std::vector<std::string> windows(const std::string& text, std::int64_t length,
                                 std::int64_t stride) {
  const CharacterTokenizer tokenizer;
  const RequestEncoder encoder(tokenizer, {.prefix_token = '<', .max_length = length});
  std::vector<std::string> result;
  for (const TokenRequest& window : encoder.encode_rolling(text, stride)) {
    const std::string tokens = text_of(window.tokens);
    result.push_back(tokens.substr(0, tokens.size() - 1) + "|" +
                     tokens.substr(static_cast<std::size_t>(window.first_scored)));
  }
  return result;
}

std::string encoded(const TextRequest& request, std::int64_t length, bool add_prefix = false) {
  const CharacterTokenizer tokenizer;
  const RequestEncoder encoder(
      tokenizer, {.prefix_token = '<', .add_prefix = add_prefix, .max_length = length});
  const TokenRequest result = encoder.encode(request);
  std::string text = text_of(result.tokens);
  text.insert(static_cast<std::size_t>(result.first_scored), "|");
  return text;
}

std::vector<TokenRequest> random_requests(std::int64_t vocab, std::int64_t longest) {
  std::mt19937 random(7);
  std::vector<TokenRequest> requests;
  for (int i = 0; i < 40; ++i) {
    TokenRequest request;
    const auto length = 2 + random() % static_cast<std::uint32_t>(longest);
    for (std::uint32_t t = 0; t < length; ++t) {
      request.tokens.push_back(
          static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab)));
    }
    request.first_scored = 1 + static_cast<std::int64_t>(random() % (length - 1));
    requests.push_back(request);
    // The same inputs with another last token, as choices of one letter have them.
    request.tokens.back() = (request.tokens.back() + 1) % static_cast<std::int32_t>(vocab);
    if (i % 3 == 0) requests.push_back(request);
  }
  return requests;
}

using Bits = std::vector<std::vector<std::pair<float, bool>>>;

Bits score(const ModelConfig& config, std::span<const TokenRequest> requests, int threads,
           std::int64_t max_tokens, std::int64_t max_sequences, std::uint32_t draw = 0) {
  const auto backend = make_cpu_backend(threads);
  const TransformerLimits limits{
      .max_tokens = max_tokens, .max_sequences = max_sequences, .training = false};
  Transformer model(config, *backend, limits);
  fill_parameters(model, *backend, 7);
  Scorer scorer(model, limits, 3);
  Bits bits;
  for (const auto& scores : scorer.score(requests, draw)) {
    auto& row = bits.emplace_back();
    for (const TokenScore& score : scores) row.emplace_back(score.loss, score.is_greedy);
  }
  return bits;
}

// All logits of this model are equal.
ModelConfig uniform_model() {
  ModelConfig config = tiny_model();
  config.vocab_size = 1024;
  config.max_positions = 64;
  return config;
}

}  // namespace

TEST_CASE("a text is scored in windows, every token once", "[evaluate]") {
  using Windows = std::vector<std::string>;
  CHECK(windows("0123456789", 4, 4) == Windows{"<012|0123", "3456|4567", "5678|89"});
  CHECK(windows("0123", 4, 4) == Windows{"<012|0123"});
  CHECK(windows("01234", 4, 4) == Windows{"<012|0123", "0123|4"});
  CHECK(windows("01234567", 4, 4) == Windows{"<012|0123", "3456|4567"});
  CHECK(windows("01", 4, 4) == Windows{"<0|01"});
  CHECK(windows("", 4, 4).empty());
  CHECK(windows("0123456", 4, 2) == Windows{"<012|0123", "1234|45", "2345|6"});
}

TEST_CASE("a request is cut and joined as the harness does it", "[evaluate]") {
  CHECK(encoded({"abc", "de"}, 4) == "abc|de");
  CHECK(encoded({"abc", "de"}, 3) == "bc|de");
  CHECK(encoded({"abc", "de"}, 2) == "c|de");
  CHECK(encoded({"ab \n", "c"}, 9) == "ab| \nc");
  CHECK(encoded({"ab", "c"}, 9, true) == "<ab|c");
  CHECK(encoded({"<ab", "c"}, 9, true) == "<ab|c");
  CHECK(encoded({"", "c"}, 9) == "<|c");
  CHECK(encoded({"", "<c"}, 9) == "<|c");
  CHECK_THROWS_AS(encoded({"abc", "de"}, 1), Error);
  CHECK_THROWS_AS(encoded({"abc", ""}, 9), Error);
  CHECK_THROWS_AS(encoded({" \n", "c"}, 9), Error);
}

TEST_CASE("scores have the same bits in any packing, order and number of threads", "[evaluate]") {
  for (const ModelCase& c : model_cases()) {
    INFO(c.name);
    ModelConfig config = c.config;
    config.attention.per_sequence = false;
    auto requests =
        random_requests(config.vocab_size, std::min<std::int64_t>(24, config.max_positions));
    const Bits alone = score(config, requests, 1, 32, 1);
    REQUIRE(score(config, requests, 2, 64, 4) == alone);
    REQUIRE(score(config, requests, 3, 1024, 64) == alone);
    std::reverse(requests.begin(), requests.end());
    Bits backwards = score(config, requests, 2, 100, 9);
    std::reverse(backwards.begin(), backwards.end());
    REQUIRE(backwards == alone);
  }
}

TEST_CASE("draws differ where permutations matter", "[evaluate]") {
  ModelConfig config = tiny_model();
  config.attention = {};
  config.attention.pattern = {{.pattern = "sa"}};
  config.attention.window = 3;
  const auto requests = random_requests(config.vocab_size, 24);
  CHECK(score(config, requests, 2, 256, 16, 0) == score(config, requests, 1, 64, 16, 0));
  CHECK(score(config, requests, 2, 256, 16, 0) != score(config, requests, 2, 256, 16, 1));
  config.attention.window = 64;  // sees everything
  CHECK(score(config, requests, 2, 256, 16, 0) == score(config, requests, 2, 256, 16, 1));
}

// docs/evaluation.md: every log-likelihood is -(tokens) ln V, so strings and cuts alone decide.
TEST_CASE("a uniform model's scores are numbers of tokens", "[evaluate]") {
  const ModelConfig config = uniform_model();
  const auto backend = make_cpu_backend(1);
  const TransformerLimits limits{.max_tokens = 64, .max_sequences = 8, .training = false};
  Transformer model(config, *backend, limits);
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<float> zeros(static_cast<std::size_t>(parameter.shape.elements()));
    backend->upload(parameter.value, zeros.data());
  }
  const auto tokenizer = Tokenizer::load(golden("evaluate/model").string());
  const RequestEncoder encoder(*tokenizer, {.prefix_token = 0, .max_length = 64});
  Scorer scorer(model, limits, 0);
  const auto result_of = [&](const char* name) {
    const EvaluationOptions options{.data = golden("evaluate/data"), .bootstrap_iterations = 0};
    TaskResult result = prepare_task(TaskRegistry().select(name).at(0), options);
    evaluate_task(result, model, scorer, encoder, options, {});
    return result;
  };

  const TaskResult lambada = result_of("lambada_openai");
  const double mean_tokens =
      static_cast<double>(lambada.scored_tokens) / static_cast<double>(lambada.documents.size());
  CHECK(lambada.metrics[0].value == Approx(std::pow(1024.0, mean_tokens)).epsilon(1e-5));
  CHECK_FALSE(lambada.metrics[0].error.has_value());

  const TaskResult wikitext = result_of("wikitext");
  std::int64_t bytes = 0;
  for (const EvaluatedDocument& document : wikitext.documents) bytes += document.item.bytes;
  CHECK(wikitext.metrics[2].value ==
        Approx(10.0 * double(wikitext.scored_tokens) / double(bytes)).epsilon(1e-6));

  const TaskResult arc = result_of("arc_easy");
  std::int64_t right = 0;
  for (const EvaluatedDocument& document : arc.documents) {
    std::vector<std::size_t> counts;
    for (const TextRequest& request : document.requests) {
      counts.push_back(encoder.encode(request).tokens.size() -
                       static_cast<std::size_t>(encoder.encode(request).first_scored));
    }
    const auto fewest = std::min_element(counts.begin(), counts.end()) - counts.begin();
    right += fewest == document.item.gold;
  }
  CHECK(arc.metrics[0].value == Approx(double(right) / double(arc.documents.size())));
}

TEST_CASE("a loss that is not a number is an error, not a score", "[evaluate]") {
  ModelConfig config = tiny_model();
  const auto backend = make_cpu_backend(1);
  const TransformerLimits limits{.max_tokens = 64, .max_sequences = 8, .training = false};
  Transformer model(config, *backend, limits);
  fill_parameters(model, *backend, 7);
  const TensorView weight = model.parameters()[0].value;
  std::vector<float> values(static_cast<std::size_t>(weight.shape.elements()), NAN);
  backend->upload(weight, values.data());
  Scorer scorer(model, limits, 0);
  CHECK_THROWS_AS(scorer.score(random_requests(config.vocab_size, 9)), Error);
}
