#include "support/model_cases.h"

#include <numeric>

#include "core/checksum.h"
#include "core/philox.h"

namespace flywheel::test {
namespace {

ModelConfig with(void (*change)(ModelConfig&), ModelConfig config = tiny_model()) {
  change(config);
  return config;
}

ModelConfig gpt2_like() {
  return with([](ModelConfig& c) {
    c.norm = NormKind::LayerNorm;
    c.position = PositionKind::Learned;
    c.mlp = MlpKind::Gelu;
    c.attention_bias = c.mlp_bias = true;
  });
}

ModelConfig pattern(const std::vector<std::string>& names, std::int64_t window,
                    ModelConfig config = tiny_model()) {
  config.attention.pattern.clear();
  for (const std::string& name : names) {
    config.attention.pattern.emplace_back().set_short_form(name);
  }
  config.attention.window = window;
  return config;
}

// One gated layer with windows and a gate of its own, one with the section's.
ModelConfig mixed_gates() {
  ModelConfig config = pattern({"sa_swa", "sa_swa"}, 4);
  LayerPatternConfig& first = config.attention.pattern[0];
  first.sa_window = 3;
  first.swa_window = 6;
  first.gate = GateKind::Channel;
  first.band = Band::Trailing;
  return config;
}

}  // namespace

ModelConfig tiny_model() {
  ModelConfig c;
  c.vocab_size = 61;
  c.hidden_size = 32;
  c.layers = 2;
  c.heads = 4;
  c.intermediate_size = 40;
  c.max_positions = 32;
  return c;
}

std::vector<ModelCase> model_cases() {
  const std::vector<std::int32_t> ragged{1, 7, 16, 3};
  const std::vector<std::int32_t> one{12};
  const ModelConfig gated = pattern({"sa_swa"}, 4);
  return {
      {"llama", tiny_model(), ragged},
      {"llama, grouped queries, untied", with([](ModelConfig& c) {
         c.kv_heads = 2;
         c.tie_embeddings = false;
       }),
       ragged},
      {"qwen3: q/k norm, grouped queries, wide heads", with([](ModelConfig& c) {
         c.kv_heads = 1;
         c.qk_norm = true;
         c.head_dim = 16;
       }),
       ragged},
      {"q/k norm with biases and learned positions", with([](ModelConfig& c) {
         c.qk_norm = c.attention_bias = true;
         c.position = PositionKind::Learned;
       }),
       one},
      {"all biases, grouped queries", with([](ModelConfig& c) {
         c.kv_heads = 2;
         c.attention_bias = c.mlp_bias = true;
       }),
       one},
      {"linear rope scaling", with([](ModelConfig& c) {
         c.rope_scaling = {.kind = RopeScalingKind::Linear, .factor = 4};
       }),
       one},
      {"llama3 rope scaling", with([](ModelConfig& c) {
         c.rope_theta = 100;
         c.rope_scaling = {
             .kind = RopeScalingKind::Llama3, .factor = 4, .original_max_position_embeddings = 64};
       }),
       one},
      {"gpt2", gpt2_like(), ragged},
      {"gpt2, untied, gated",
       with([](ModelConfig& c) { c.tie_embeddings = false; }, pattern({"sa_swa"}, 4, gpt2_like())),
       ragged},
      {"layer norm, gelu, rope, no biases, grouped queries", with([](ModelConfig& c) {
         c.norm = NormKind::LayerNorm;
         c.mlp = MlpKind::Gelu;
         c.kv_heads = 2;
       }),
       ragged},
      {"tied with z-loss, small loss chunks", tiny_model(), ragged, 0.01, 5},
      {"untied with z-loss", with([](ModelConfig& c) { c.tie_embeddings = false; }), one, 0.1, 4},
      {"swa", pattern({"swa"}, 3), ragged},
      {"sa", pattern({"sa"}, 5), ragged},
      {"sa trailing, clipped, matched, per sequence",
       with(
           [](ModelConfig& c) {
             c.attention.band = Band::Trailing;
             c.attention.budget = Budget::Matched;
             c.attention.circular = false;
             c.attention.per_sequence = true;
           },
           pattern({"sa"}, 3)),
       ragged},
      {"moba", pattern({"moba"}, 4), ragged},
      {"moba of three blocks, grouped queries, q/k norm",
       with(
           [](ModelConfig& c) {
             c.attention.moba_topk = 3;
             c.kv_heads = 2;
             c.qk_norm = true;
           },
           pattern({"moba"}, 6)),
       ragged},
      {"hybrid of five patterns",
       with([](ModelConfig& c) { c.layers = 5; },
            pattern({"swa", "sa", "sa_swa", "moba", "full"}, 4)),
       ragged},
      {"gates by head", gated, ragged},
      {"gates by channel, grouped queries, q/k norm",
       with(
           [](ModelConfig& c) {
             c.attention.gate = GateKind::Channel;
             c.kv_heads = 2;
             c.qk_norm = true;
           },
           gated),
       ragged},
      {"gated layers that differ", mixed_gates(), ragged},
      {"sequences longer than a tile of attention",
       with(
           [](ModelConfig& c) {
             c.max_positions = 160;
             c.heads = 2;
             c.kv_heads = 1;
           },
           pattern({"sa_swa", "full"}, 20)),
       {130, 65}},
  };
}

TransformerLimits limits_of(const ModelCase& c, RecomputePolicy recompute) {
  return {.max_tokens = std::accumulate(c.lengths.begin(), c.lengths.end(), std::int64_t{0}),
          .max_sequences = static_cast<std::int64_t>(c.lengths.size()),
          .training = true,
          .recompute = recompute,
          .loss_chunk = c.loss_chunk};
}

TwinInput input_of(const ModelCase& c, std::uint64_t seed) {
  TwinInput input = random_twin_input(c.config, c.lengths, seed);
  input.first_sequence = 5;
  input.loss_scale = 0.125;
  input.z_loss = c.z_loss;
  return input;
}

void fill_parameters(Transformer& model, Backend& backend, std::uint64_t seed) {
  for (const Parameter& parameter : model.parameters()) {
    const std::uint64_t name = checksum(std::as_bytes(std::span(parameter.name)));
    const RandomSequence random(seed ^ name, RandomStream::kInitialization);
    const bool norm = parameter.shape.rank() == 1 && parameter.name.ends_with("weight");
    std::vector<float> values(static_cast<std::size_t>(parameter.shape.elements()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((norm ? 1.0 : 0.0) + 0.2 * random.normal(i));
    }
    backend.upload(parameter.value, values.data());
  }
}

std::vector<float> download(Backend& backend, const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  backend.download(values.data(), tensor);
  return values;
}

NamedValues<float> values_of(const Transformer& model, Backend& backend) {
  NamedValues<float> values;
  for (const Parameter& p : model.parameters()) values[p.name] = download(backend, p.value);
  return values;
}

NamedValues<float> gradients_of(const Transformer& model, Backend& backend) {
  NamedValues<float> values;
  for (const Parameter& p : model.parameters()) values[p.name] = download(backend, p.grad);
  return values;
}

}  // namespace flywheel::test
