#include <algorithm>
#include <cmath>
#include <random>

#include "cpu/cpu_backend.h"
#include "eval/request_groups.h"
#include "eval/scorer.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/model_cases.h"

using namespace flywheel;
using namespace flywheel::test;

// Contexts that several requests share run once.
namespace {

using Tokens = std::vector<std::int32_t>;

// Four choices of 1 to 4 tokens behind each of 12 contexts; some choices begin alike.
std::vector<TokenRequest> multiple_choice(std::int64_t vocab) {
  std::mt19937 random(11);
  const auto token = [&] {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab));
  };
  std::vector<TokenRequest> requests;
  for (int document = 0; document < 12; ++document) {
    Tokens context(1 + random() % 20);
    for (std::int32_t& t : context) t = token();
    const std::int32_t first = token();
    for (int choice = 0; choice < 4; ++choice) {
      TokenRequest request{.tokens = context, .first_scored = std::ssize(context)};
      if (choice % 2 == 0) request.tokens.push_back(first);
      const auto more = 1 + random() % 3;
      for (std::uint32_t t = 0; t < more; ++t) request.tokens.push_back(token());
      requests.push_back(request);
    }
  }
  return requests;
}

using Bits = std::vector<std::vector<std::pair<float, bool>>>;

Bits score(const ModelConfig& config, std::span<const TokenRequest> requests,
           const TransformerLimits& limits) {
  const auto backend = make_cpu_backend(2);
  Transformer model(config, *backend, limits);
  fill_parameters(model, *backend, 7);
  Scorer scorer(model, limits, 3);
  Bits bits;
  for (const auto& scores : scorer.score(requests)) {
    auto& row = bits.emplace_back();
    for (const TokenScore& score : scores) row.emplace_back(score.loss, score.is_greedy);
  }
  return bits;
}

// Of losses; infinite if another token is the likeliest.
float largest_difference(const Bits& a, const Bits& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      if (a[i][j].second != b[i][j].second) return INFINITY;
      largest = std::max(largest, std::abs(a[i][j].first - b[i][j].first));
    }
  }
  return largest;
}

// A request so short that moba sees all of it is computed as full attention, one that shares its
// context with a longer one is not: to rounding they agree.
bool has_moba(const ModelConfig& config) {
  const auto layers = resolve_layers(config);
  return std::any_of(layers.begin(), layers.end(), [](const LayerAttention& layer) {
    return layer.path.kind == AttentionKind::Moba;
  });
}

TransformerLimits limits_of(std::int64_t tokens, std::int64_t sequences, std::int64_t rows) {
  TransformerLimits limits{.max_tokens = tokens, .max_sequences = sequences, .training = false};
  limits.max_attention_rows = rows;
  return limits;
}

std::int64_t tokens_that_run(std::span<const TokenRequest> requests, std::int64_t rows) {
  std::int64_t tokens = 0;
  for (const RequestGroup& group : group_requests(requests, limits_of(1000, 100, rows))) {
    tokens += group.tokens();
  }
  return tokens;
}

TokenRequest request(Tokens tokens, std::int64_t first_scored) {
  return {.tokens = std::move(tokens), .first_scored = first_scored};
}

Tokens copy(std::span<const std::int32_t> values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("a shared context changes no bit of a score", "[evaluate]") {
  for (const ModelCase& c : model_cases()) {
    INFO(c.name);
    ModelConfig config = c.config;
    config.attention.per_sequence = false;
    if (!is_prefix_consistent(config)) continue;
    const auto requests = multiple_choice(config.vocab_size);
    REQUIRE(tokens_that_run(requests, 200) < tokens_that_run(requests, 0) * 2 / 3);
    const float tolerance = has_moba(config) ? 1e-5F : 0.0F;
    const Bits alone = score(config, requests, limits_of(64, 8, 0));
    const auto check = [&](const TransformerLimits& limits) {
      CHECK(largest_difference(score(config, requests, limits), alone) <= tolerance);
    };
    check(limits_of(1000, 100, 2000));
    check(limits_of(64, 8, 128));  // several passes
    check(limits_of(200, 3, 30));  // some are too large to share
  }
}

TEST_CASE("moba and windows see through a shared context", "[evaluate]") {
  for (const char* pattern : {"moba", "swa"}) {
    INFO(pattern);
    ModelConfig config = tiny_model();
    config.attention.pattern.at(0).set_short_form(pattern);
    config.attention.window = 4;
    config.attention.moba_block = 2;
    const auto requests = multiple_choice(config.vocab_size);
    CHECK(score(config, requests, limits_of(1000, 100, 2000)) ==
          score(config, requests, limits_of(64, 8, 0)));
  }
}

TEST_CASE("requests of one context become branches", "[evaluate]") {
  const std::vector<TokenRequest> requests{request({1, 2, 3, 7, 8, 9}, 3), request({5, 6}, 1),
                                           request({1, 2, 3, 4}, 3), request({1, 2, 3, 7, 9}, 3),
                                           request({1, 2, 3, 7, 8, 4}, 3)};
  const auto groups = group_requests(requests, limits_of(100, 10, 100));
  REQUIRE(groups.size() == 2);
  const RequestGroup& group = groups[0];
  CHECK(copy(group.text) == Tokens{1, 2, 3});
  REQUIRE(group.branches.size() == 3);
  CHECK(group.branches[0].requests == std::vector<std::size_t>{2});
  CHECK(group.branches[1].requests == std::vector<std::size_t>{3});
  CHECK(copy(group.branches[1].tokens) == Tokens{7});
  CHECK(group.branches[2].requests == std::vector<std::size_t>{0, 4});
  CHECK(group.tokens() == 6);
  CHECK(group.attention_rows() == 9);

  GroupPacker packer(limits_of(100, 10, 100));
  CHECK(packer.add(groups[1]) == 0);
  CHECK(packer.add(group) == 1);
  const PackedTokens packed = packer.view();
  CHECK(copy(packed.inputs) == Tokens{5, 1, 2, 3, 7, 7, 8});
  CHECK(copy(packed.positions) == Tokens{0, 0, 1, 2, 3, 3, 4});
  CHECK(copy(packed.attention_rows) == Tokens{0, 1, 2, 3, 4, 1, 2, 3, 5, 6});
  CHECK(copy(packed.cu_seqlens) == Tokens{0, 1, 5, 10});
}

TEST_CASE("a model with sa takes no shared tokens", "[evaluate]") {
  ModelConfig config = tiny_model();
  config.attention.pattern.at(0).set_short_form("sa");
  config.attention.window = 4;
  const auto requests = multiple_choice(config.vocab_size);
  CHECK_FALSE(is_prefix_consistent(config));
  CHECK_THROWS_AS(score(config, requests, limits_of(1000, 100, 2000)), Error);
}
