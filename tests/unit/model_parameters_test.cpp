#include "model/parameters.h"

#include <cmath>
#include <set>

#include "cpu/cpu_backend.h"
#include "support/catch.h"
#include "support/model_cases.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

std::set<std::string> names(const ModelConfig& config) {
  std::set<std::string> result;
  for (const ParameterSpec& spec : lay_out_parameters(config).specs) {
    result.insert(spec.name + " " + spec.slot.shape.to_string());
  }
  return result;
}

ModelConfig one_layer() {
  ModelConfig config = tiny_model();
  config.layers = 1;
  return config;
}

}  // namespace

TEST_CASE("parameters carry Llama's and Qwen3's names and shapes", "[model]") {
  ModelConfig config = one_layer();
  config.kv_heads = 2;
  config.qk_norm = true;
  config.tie_embeddings = false;
  const std::string layer = "model.layers.0.";
  REQUIRE(names(config) == std::set<std::string>{
                               "model.embed_tokens.weight [61, 32]",
                               layer + "input_layernorm.weight [32]",
                               layer + "self_attn.q_proj.weight [32, 32]",
                               layer + "self_attn.k_proj.weight [16, 32]",
                               layer + "self_attn.v_proj.weight [16, 32]",
                               layer + "self_attn.q_norm.weight [8]",
                               layer + "self_attn.k_norm.weight [8]",
                               layer + "self_attn.o_proj.weight [32, 32]",
                               layer + "post_attention_layernorm.weight [32]",
                               layer + "mlp.gate_proj.weight [40, 32]",
                               layer + "mlp.up_proj.weight [40, 32]",
                               layer + "mlp.down_proj.weight [32, 40]",
                               "model.norm.weight [32]",
                               "lm_head.weight [61, 32]",
                           });
}

TEST_CASE("parameters of GPT-2's family carry GPT-2's names and shapes", "[model]") {
  ModelConfig config = one_layer();
  config.norm = NormKind::LayerNorm;
  config.position = PositionKind::Learned;
  config.mlp = MlpKind::Gelu;
  config.attention_bias = config.mlp_bias = true;
  const std::string layer = "transformer.h.0.";
  REQUIRE(names(config) == std::set<std::string>{
                               "transformer.wte.weight [61, 32]",
                               "transformer.wpe.weight [32, 32]",
                               layer + "ln_1.weight [32]",
                               layer + "ln_1.bias [32]",
                               layer + "attn.c_attn.weight [32, 96]",
                               layer + "attn.c_attn.bias [96]",
                               layer + "attn.c_proj.weight [32, 32]",
                               layer + "attn.c_proj.bias [32]",
                               layer + "ln_2.weight [32]",
                               layer + "ln_2.bias [32]",
                               layer + "mlp.c_fc.weight [32, 40]",
                               layer + "mlp.c_fc.bias [40]",
                               layer + "mlp.c_proj.weight [40, 32]",
                               layer + "mlp.c_proj.bias [32]",
                               "transformer.ln_f.weight [32]",
                               "transformer.ln_f.bias [32]",
                           });
}

TEST_CASE("projections of one input lie side by side", "[model]") {
  ModelConfig config = one_layer();
  config.attention_bias = true;
  config.attention.pattern[0].set_short_form("sa_swa");
  const ParameterLayout layout = lay_out_parameters(config);
  const auto end_of = [&](const std::string& name) {
    for (const ParameterSpec& spec : layout.specs) {
      if (spec.name == name) return spec.slot.offset + 4 * spec.slot.shape.elements();
    }
    return std::int64_t{-1};
  };
  const std::string self = "model.layers.0.self_attn.";
  const LayerSlots& layer = layout.layers[0];
  for (const std::string kind : {"weight", "bias"}) {
    const Slot& qkv = kind == "weight" ? layer.qkv.weight : layer.qkv.bias;
    const Slot& gates = kind == "weight" ? layer.gates.weight : layer.gates.bias;
    const std::int64_t row = 4 * (kind == "weight" ? 32 : 1);
    REQUIRE(end_of(self + "q_proj." + kind) == qkv.offset + 32 * row);
    REQUIRE(end_of(self + "v_proj." + kind) == qkv.offset + 96 * row);
    REQUIRE(end_of(self + "gate_sa." + kind) == gates.offset + 4 * row);
    REQUIRE(end_of(self + "gate_swa." + kind) == gates.offset + 8 * row);
  }
}

TEST_CASE("only matrices decay", "[model]") {
  for (const ModelCase& c : model_cases()) {
    for (const ParameterSpec& spec : lay_out_parameters(c.config).specs) {
      REQUIRE(spec.decay == (spec.slot.shape.rank() == 2));
    }
  }
}

TEST_CASE("initial weights depend on seed and name alone", "[model]") {
  ModelConfig config = tiny_model();
  config.hidden_size = 256;
  config.attention.pattern[0].set_short_form("sa_swa");
  const auto backend = make_cpu_backend(1);
  const TransformerLimits limits{.max_tokens = 8, .max_sequences = 1, .training = false};
  const auto initialized = [&](const ModelConfig& c, std::uint64_t seed) {
    Transformer model(c, *backend, limits);
    model.initialize(seed);
    return values_of(model, *backend);
  };
  const auto first = initialized(config, 1);
  REQUIRE(first == initialized(config, 1));
  REQUIRE(first != initialized(config, 2));
  ModelConfig wider = config;
  wider.layers = 3;
  wider.vocab_size = 100;
  REQUIRE(first.at("model.layers.1.self_attn.k_proj.weight") ==
          initialized(wider, 1).at("model.layers.1.self_attn.k_proj.weight"));

  for (const auto& [name, values] : first) {
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const double n = static_cast<double>(values.size());
    const bool residual = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
    INFO(name);
    if (name.find("norm") != std::string::npos) {
      REQUIRE(sum == n);
    } else if (name.find("gate_s") != std::string::npos) {
      REQUIRE(squares == 0);
    } else {
      const double deviation = residual ? 0.02 / 2 : 0.02;  // 1 / sqrt(2 layers)
      REQUIRE(std::abs(sum / n) < 5 * deviation / std::sqrt(n));
      REQUIRE(std::abs(squares / n / (deviation * deviation) - 1) < 5 * std::sqrt(2 / n));
    }
  }
}
