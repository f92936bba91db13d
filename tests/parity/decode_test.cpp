#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/model_cases.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

constexpr std::int32_t kDecoded = 9;  // tokens after each prompt
constexpr PermutationDraw kDraw{.seed = 11, .stream = RandomStream::kEvaluationPermutation};

using Tokens = std::vector<std::int32_t>;

TransformerLimits limits_for(const std::vector<Tokens>& prompts) {
  TransformerLimits limits{.training = false};
  for (const Tokens& prompt : prompts) {
    const auto length = static_cast<std::int64_t>(prompt.size());
    limits.max_tokens += length;
    limits.cache_length = std::max(limits.cache_length, length + kDecoded);
  }
  limits.max_sequences = limits.cache_slots = std::ssize(prompts);
  return limits;
}

Tokens random_prompt(const ModelConfig& config, std::int64_t length, std::uint64_t seed) {
  const RandomSequence random(seed, RandomStream::kCorpus);
  Tokens prompt;
  for (std::int64_t i = 0; i < length; ++i) {
    prompt.push_back(static_cast<std::int32_t>(random.below(
        static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(config.vocab_size))));
  }
  return prompt;
}

std::int32_t likeliest(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

struct Generated {
  std::vector<Tokens> tokens;  // of each prompt
  std::vector<float> logits;   // [prompt, decoded token, V]
};

// Greedy tokens of all prompts at once, in slots that are not in order.
Generated generate(Transformer& model, const std::vector<Tokens>& prompts,
                   DecodeAttention attention) {
  const auto vocabulary = static_cast<std::size_t>(model.config().vocab_size);
  TwinInput input{.cu_seqlens = {0}};
  Tokens slots;
  for (const Tokens& prompt : prompts) {
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      input.inputs.push_back(prompt[i]);
      input.targets.push_back(-1);
      input.positions.push_back(static_cast<std::int32_t>(i));
    }
    input.cu_seqlens.push_back(static_cast<std::int32_t>(input.inputs.size()));
    slots.push_back(static_cast<std::int32_t>(prompts.size() - 1 - slots.size()));
  }
  Generated result;
  result.tokens.resize(prompts.size());
  result.logits.resize(prompts.size() * kDecoded * vocabulary);
  std::vector<float> logits(prompts.size() * vocabulary);
  model.prefill(input.packed(), kDraw, slots, logits);
  for (std::size_t step = 0; step < kDecoded; ++step) {
    Tokens next;
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      const auto row = std::span(logits).subspan(p * vocabulary, vocabulary);
      std::copy(
          row.begin(), row.end(),
          result.logits.begin() + static_cast<std::ptrdiff_t>((p * kDecoded + step) * vocabulary));
      next.push_back(likeliest(row));
      result.tokens[p].push_back(next.back());
    }
    if (step + 1 < kDecoded) model.decode(next, slots, attention, logits);
  }
  return result;
}

// The twin on prompts and generated tokens: what recomputing every prefix gives, since decoded rows
// see the past only.
TwinInput whole_input(const std::vector<Tokens>& prompts, const Generated& generated,
                      DecodeAttention attention) {
  TwinInput input{.cu_seqlens = {0}, .draw = kDraw, .decode_attention = attention};
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    Tokens all = prompts[p];
    all.insert(all.end(), generated.tokens[p].begin(), generated.tokens[p].end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      input.inputs.push_back(all[i]);
      input.targets.push_back(-1);
      input.positions.push_back(static_cast<std::int32_t>(i));
    }
    input.cu_seqlens.push_back(static_cast<std::int32_t>(input.inputs.size()));
    input.prompt_lengths.push_back(static_cast<std::int32_t>(prompts[p].size()));
  }
  return input;
}

// The twin's rows that Generated::logits belong to.
template <class Real>
std::vector<Real> decoded_rows(const TwinOutput<Real>& twin, const TwinInput& input,
                               std::size_t vocabulary) {
  std::vector<Real> rows;
  for (std::size_t p = 0; p < input.prompt_lengths.size(); ++p) {
    const auto first = static_cast<std::size_t>(input.cu_seqlens[p] + input.prompt_lengths[p] - 1);
    const auto begin = twin.logits.begin() + static_cast<std::ptrdiff_t>(first * vocabulary);
    rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(kDecoded * vocabulary));
  }
  return rows;
}

double largest_error(std::span<const float> x, std::span<const double> exact) {
  double error = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error = std::max(error, std::abs(static_cast<double>(x[i]) - exact[i]));
  }
  return error;
}

std::vector<ModelCase> decode_cases() {
  std::vector<ModelCase> cases = model_cases();
  for (ModelCase& c : cases) c.config.max_positions += kDecoded;
  return cases;
}

}  // namespace

TEST_CASE("prefill and decode give the twin's logits", "[decode]") {
  const auto backend = make_cpu_backend(2);
  for (const ModelCase& c : decode_cases()) {
    std::vector<Tokens> prompts;
    for (const std::int32_t length : c.lengths) {
      prompts.push_back(random_prompt(c.config, length, static_cast<std::uint64_t>(length)));
    }
    Transformer model(c.config, *backend, limits_for(prompts));
    fill_parameters(model, *backend, 7);
    const NamedValues<float> weights = values_of(model, *backend);
    for (const auto attention : {DecodeAttention::Full, DecodeAttention::Window}) {
      const Generated generated = generate(model, prompts, attention);
      const TwinInput input = whole_input(prompts, generated, attention);
      const auto vocabulary = static_cast<std::size_t>(c.config.vocab_size);
      const auto exact =
          decoded_rows(run_twin(c.config, converted<double>(weights), input), input, vocabulary);
      const auto naive = decoded_rows(run_twin(c.config, weights, input), input, vocabulary);
      double largest = 0;
      for (const double x : exact) largest = std::max(largest, std::abs(x));
      const double tolerance = 2 * largest_error(naive, exact) +
                               8 * double{std::numeric_limits<float>::epsilon()} * largest;
      CAPTURE(c.name, static_cast<int>(attention));
      REQUIRE(largest_error(generated.logits, exact) <= tolerance);
    }
  }
}

TEST_CASE("cached generation gives the tokens of recomputing, alone and in a batch", "[decode]") {
  constexpr std::size_t kPrompts = 100;
  constexpr std::size_t kTogether = 10;
  const auto backend = make_cpu_backend(2);
  for (ModelCase& c : decode_cases()) {
    CAPTURE(c.name);
    c.config.attention.per_sequence = false;  // a prompt alone is sequence 0
    for (std::size_t first = 0; first < kPrompts; first += kTogether) {
      std::vector<Tokens> prompts;
      for (std::size_t p = first; p < first + kTogether; ++p) {
        const RandomSequence random(p, RandomStream::kSampling);
        const auto length = static_cast<std::int64_t>(1 + random.below(0, 20));
        prompts.push_back(random_prompt(c.config, length, p));
      }
      Transformer model(c.config, *backend, limits_for(prompts));
      fill_parameters(model, *backend, 7 + first);
      const NamedValues<double> weights = converted<double>(values_of(model, *backend));
      const Generated batch = generate(model, prompts, DecodeAttention::Full);
      const TwinInput input = whole_input(prompts, batch, DecodeAttention::Full);
      const auto vocabulary = static_cast<std::size_t>(c.config.vocab_size);
      const auto exact = decoded_rows(run_twin(c.config, weights, input), input, vocabulary);
      for (std::size_t p = 0; p < prompts.size(); ++p) {
        CAPTURE(first + p);
        for (std::size_t step = 0; step < kDecoded; ++step) {
          const auto row =
              exact.begin() + static_cast<std::ptrdiff_t>((p * kDecoded + step) * vocabulary);
          const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(vocabulary));
          REQUIRE(batch.tokens[p][step] == best - row);
        }
        const Generated alone = generate(model, {prompts[p]}, DecodeAttention::Full);
        REQUIRE(alone.tokens[0] == batch.tokens[p]);
      }
    }
  }
}

// The twin has no experts: what the model gives for whole texts stands in for it.
TEST_CASE("experts give the logits of recomputing when they decode", "[decode]") {
  const auto backend = make_cpu_backend(2);
  ModelConfig config = tiny_model();
  config.experts = {.count = 6, .per_token = 2, .intermediate_size = 24, .normalize = true};
  const std::vector<Tokens> prompts{random_prompt(config, 5, 1), random_prompt(config, 12, 2)};
  Transformer model(config, *backend, limits_for(prompts));
  fill_parameters(model, *backend, 7);
  const Generated generated = generate(model, prompts, DecodeAttention::Full);
  const TwinInput input = whole_input(prompts, generated, DecodeAttention::Full);
  TransformerLimits limits = limits_for(prompts);
  limits.max_tokens = std::ssize(input.inputs);
  Transformer whole(config, *backend, limits);
  fill_parameters(whole, *backend, 7);
  std::vector<std::int64_t> rows;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    for (std::int64_t step = 0; step < kDecoded; ++step) {
      rows.push_back(input.cu_seqlens[p] + input.prompt_lengths[p] - 1 + step);
    }
  }
  std::vector<float> expected(generated.logits.size());
  whole.logits(input.packed(), kDraw, rows, expected);
  const std::vector<double> exact(expected.begin(), expected.end());
  CHECK(largest_error(generated.logits, exact) < 1e-5);
}
