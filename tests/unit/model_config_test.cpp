#include "model/model_config.h"

#include <algorithm>

#include "core/error.h"
#include "core/json_fields.h"
#include "model/huggingface_config.h"
#include "support/catch.h"
#include "support/model_cases.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

std::vector<std::string> faults_of(const ModelConfig& config) {
  std::vector<std::string> faults;
  validate(config, [&](std::string_view path, std::string_view fault) {
    faults.push_back(std::string(path) + ": " + std::string(fault));
  });
  return faults;
}

bool has(const std::vector<std::string>& faults, const std::string& start) {
  return std::any_of(faults.begin(), faults.end(),
                     [&](const std::string& fault) { return fault.starts_with(start); });
}

ModelConfig parsed(const std::string& json) {
  ModelConfig config;
  ConfigFaults faults("test.json");
  read_fields(config, parse_json(json, "test.json"), faults);
  faults.throw_if_any();
  return config;
}

ModelConfig patterned(std::vector<std::string> names) {
  ModelConfig config = tiny_model();
  config.attention.pattern.clear();
  for (const auto& name : names) config.attention.pattern.emplace_back().set_short_form(name);
  return config;
}

}  // namespace

TEST_CASE("all faults of a model config are reported with their paths", "[model]") {
  REQUIRE(faults_of(ModelConfig()).empty());
  ModelConfig config;
  config.layers = 0;
  config.heads = 12;
  config.kv_heads = 5;
  config.head_dim = 20;
  config.attention.window = 0;
  config.attention.pattern.resize(2);
  config.attention.pattern[0].pattern = "sa_sw";
  config.attention.pattern[1].window = -3;
  const auto faults = faults_of(config);
  REQUIRE(faults.size() == 6);
  REQUIRE(has(faults, "layers: 0 is not"));
  REQUIRE(has(faults, "kv_heads: 5 does not divide the 12 heads"));
  REQUIRE(has(faults, "head_dim: 20 is not a multiple of 8"));
  REQUIRE(has(faults, "attention.window: 0"));
  REQUIRE(has(faults, "attention.pattern.0.pattern: unknown pattern \"sa_sw\", did you mean"));
  REQUIRE(has(faults, "attention.pattern.1.window: -3"));
  REQUIRE_THROWS_AS(require_valid(config), Error);
}

TEST_CASE("rope scaling is validated by its kind", "[model]") {
  ModelConfig config;
  config.rope_scaling = {.kind = RopeScalingKind::Llama3, .factor = 0.5, .high_freq_factor = 1};
  config.position = PositionKind::Learned;
  const auto faults = faults_of(config);
  REQUIRE(has(faults, "rope_scaling.kind"));
  REQUIRE(has(faults, "rope_scaling.factor"));
  REQUIRE(has(faults, "rope_scaling.high_freq_factor"));
}

TEST_CASE("patterns are names or objects and repeat over the depth", "[model]") {
  const ModelConfig config = parsed(R"({
    "layers": 5,
    "attention": {
      "window": 64, "sa_window": 32, "gate": "channel",
      "pattern": ["swa", {"pattern": "sa", "window": 16, "band": "trailing"}, "sa_swa"]
    }})");
  const auto layers = resolve_layers(config);
  REQUIRE(layers.size() == 5);
  REQUIRE(layers[0].path == AttentionPattern{.kind = AttentionKind::Swa, .window = 64});
  REQUIRE(layers[1].path.kind == AttentionKind::Sa);
  REQUIRE(layers[1].path.window == 16);
  REQUIRE(layers[1].path.band == Band::Trailing);
  REQUIRE(layers[2].gated);
  REQUIRE(layers[2].gate == GateKind::Channel);
  REQUIRE(layers[2].path.window == 32);
  REQUIRE(layers[2].swa_path.window == 64);
  REQUIRE(layers[3].path == layers[0].path);
  REQUIRE(layers[4].path == layers[1].path);
  REQUIRE(parsed(write_fields(config).dump()) == config);
  REQUIRE(write_fields(config)["attention"]["pattern"][0] == "swa");
}

TEST_CASE("a layer's window stands before the section's windows of the paths", "[model]") {
  const ModelConfig config = parsed(R"({
    "attention": {
      "window": 64, "swa_window": 128,
      "pattern": [{"pattern": "sa_swa", "window": 16}, {"pattern": "sa_swa", "sa_window": 8}]
    }})");
  const auto layers = resolve_layers(config);
  REQUIRE(layers[0].path.window == 16);
  REQUIRE(layers[0].swa_path.window == 16);
  REQUIRE(layers[1].path.window == 8);
  REQUIRE(layers[1].swa_path.window == 128);
}

TEST_CASE("moba's blocks are given or made from a window", "[model]") {
  const ModelConfig config = parsed(R"({
    "layers": 4,
    "attention": {
      "window": 64, "moba_block": 24,
      "pattern": ["moba", {"pattern": "moba", "window": 48, "moba_topk": 3},
                  {"pattern": "moba", "moba_block": 5}, {"pattern": "moba", "moba_block": 0}]
    }})");
  const auto layers = resolve_layers(config);
  const auto moba = [](std::int64_t block, std::int64_t top_k) {
    return AttentionPattern{.kind = AttentionKind::Moba, .block = block, .top_k = top_k};
  };
  REQUIRE(layers[0].path == moba(24, 2));
  REQUIRE(layers[1].path == moba(16, 3));
  REQUIRE(layers[2].path == moba(5, 2));
  REQUIRE(layers[3].path == moba(32, 2));
  REQUIRE(parsed(write_fields(config).dump()) == config);
  ModelConfig odd = config;
  odd.attention.pattern = {{.pattern = "moba", .window = 7}};
  REQUIRE(has(faults_of(odd), "attention.pattern.0.window: 7 is not a multiple of moba_topk 2"));
}

TEST_CASE("a checkpoint's config.json names the transformers class", "[model]") {
  ModelConfig qwen3 = tiny_model();
  qwen3.qk_norm = true;
  ModelConfig gpt2 = tiny_model();
  gpt2.norm = NormKind::LayerNorm;
  gpt2.position = PositionKind::Learned;
  gpt2.mlp = MlpKind::Gelu;
  gpt2.attention_bias = gpt2.mlp_bias = true;
  ModelConfig biased_swa = patterned({"swa"});
  biased_swa.attention_bias = true;
  ModelConfig qwen3_hybrid = patterned({"swa", "full"});
  qwen3_hybrid.qk_norm = true;
  const std::vector<std::pair<ModelConfig, std::string>> expected{
      {tiny_model(), "llama"},         {qwen3, "qwen3"},
      {qwen3_hybrid, "qwen3"},         {gpt2, "gpt2"},
      {patterned({"swa"}), "mistral"}, {patterned({"swa", "full"}), "flywheel"},
      {patterned({"sa"}), "flywheel"}, {patterned({"sa_swa"}), "flywheel"},
      {biased_swa, "flywheel"},
  };
  for (const auto& [config, type] : expected) {
    REQUIRE(huggingface_model_type(config) == type);
    const std::string text = to_huggingface(config, {.begin = 50256, .end = {50256}});
    const Json json = parse_json(text, "config.json");
    REQUIRE(json["model_type"] == type);
    REQUIRE(json["eos_token_id"] == 50256);
    REQUIRE(from_huggingface(text, "config.json") == config);
  }
  const Json hybrid = parse_json(to_huggingface(qwen3_hybrid), "config.json");
  REQUIRE(hybrid["layer_types"] == Json({"sliding_attention", "full_attention"}));
  REQUIRE(hybrid["eos_token_id"].is_null());
}

TEST_CASE("a foreign or faulty config.json is refused with its name", "[model]") {
  const auto message = [](const std::string& text) {
    try {
      from_huggingface(text, "x/config.json");
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::Config);
      return std::string(error.what());
    }
    return std::string();
  };
  REQUIRE(message(R"({"model_type": "llama"})") == "x/config.json: hidden_size is missing");
  REQUIRE(message(R"({"model_type": "t5"})").find("x/config.json: model_type: \"t5\" is not") == 0);
  REQUIRE(message(R"([1])").find("x/config.json") == 0);
  REQUIRE(message(R"({"flywheel": {"layer": 3}})").find("layer") != std::string::npos);
  REQUIRE(message(R"({"flywheel": {"layers": -3}})").find("flywheel.layers: -3") !=
          std::string::npos);
}
