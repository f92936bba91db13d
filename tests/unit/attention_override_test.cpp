#include "model/attention_override.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

ModelConfig four_layers(std::vector<LayerPatternConfig> pattern) {
  ModelConfig config;
  config.layers = 4;
  config.attention.pattern = std::move(pattern);
  config.attention.window = 64;
  return config;
}

std::string described(const ModelConfig& config, const AttentionOverride& attention) {
  return describe_attention(with_attention(config, attention));
}

}  // namespace

TEST_CASE("nothing set leaves every layer's attention as it is", "[model]") {
  ModelConfig config = four_layers({{.pattern = "full"}, {.pattern = "sa_swa", .window = 8}});
  config.attention.sa_window = 32;
  config.attention.swa_window = 16;
  config.attention.band = Band::Trailing;
  const std::string before = describe_attention(config);
  CHECK(before ==
        "full in layers 0,2; sa window 8 trailing slots + swa window 8, gated in layers 1,3");
  CHECK(described(config, {}) == before);
  config.attention.pattern = {{.pattern = "sa_swa"}};
  CHECK(described(config, {}) == "sa window 32 trailing slots + swa window 16, gated");
  CHECK(describe_attention(config) == described(config, {}));
}

TEST_CASE("a pattern replaces that of the chosen layers", "[model]") {
  const ModelConfig config = four_layers({{.pattern = "full"}});
  CHECK(described(config, {.pattern = "swa", .window = 16}) == "swa window 16");
  CHECK(described(config, {.pattern = "sa", .window = 16, .budget = Budget::Matched}) ==
        "sa window 16 centered matched");
  CHECK(described(config, {.pattern = "sa", .circular = false}) ==
        "sa window 64 centered slots clipped");
  CHECK(described(config, {.pattern = "swa", .layers = "even"}) ==
        "swa window 64 in layers 0,2; full in layers 1,3");
  CHECK(described(config, {.pattern = "swa", .layers = "odd"}) ==
        "full in layers 0,2; swa window 64 in layers 1,3");
  CHECK(described(config, {.pattern = "swa", .layers = "0,2-3"}) ==
        "swa window 64 in layers 0,2,3; full in layers 1");
}

TEST_CASE("a gated model keeps its gates or drops them, others cannot get any", "[model]") {
  const ModelConfig gated = four_layers({{.pattern = "sa_swa"}});
  CHECK(described(gated, {.pattern = "swa"}) == "swa window 64");
  CHECK(described(gated, {.window = 8}) == "sa window 8 centered slots + swa window 8, gated");
  CHECK(described(gated, {.pattern = "sa_swa", .band = Band::Trailing}) ==
        "sa window 64 trailing slots + swa window 64, gated");
  const ModelConfig full = four_layers({{.pattern = "full"}});
  CHECK(contains(error_of([&] { with_attention(full, {.pattern = "sa_swa"}); }), "needs gates"));
}

TEST_CASE("moba takes a window of blocks, or the size of a block", "[model]") {
  ModelConfig config = four_layers({{.pattern = "full"}});
  CHECK(described(config, {.pattern = "moba"}) == "moba block 32 top 2");
  CHECK(described(config, {.pattern = "moba", .window = 16}) == "moba block 8 top 2");
  CHECK(described(config, {.pattern = "moba", .window = 48, .moba_topk = 3}) ==
        "moba block 16 top 3");
  CHECK(described(config, {.pattern = "moba", .moba_block = 7, .layers = "0"}) ==
        "moba block 7 top 2 in layers 0; full in layers 1,2,3");
  config.attention.pattern = {{.pattern = "moba", .moba_block = 512, .moba_topk = 3}};
  CHECK(described(config, {}) == "moba block 512 top 3");
  CHECK(described(config, {.window = 96}) == "moba block 32 top 3");
  const auto fault = [&](const AttentionOverride& attention) {
    return error_of([&] { with_attention(config, attention); });
  };
  CHECK(contains(fault({.window = 32}), "32 is not a multiple of moba_topk 3; set moba_block"));
  CHECK(contains(fault({.window = 32, .moba_block = 16}), "give one of them"));
  CHECK(contains(fault({.moba_block = 0}), "moba block 0: expected 1 or more"));
  CHECK(contains(fault({.moba_topk = 0}), "moba_topk: 0 is not a positive number"));
}

TEST_CASE("faults of an override are named", "[model]") {
  const ModelConfig config = four_layers({{.pattern = "full"}});
  const auto fault = [&](const AttentionOverride& attention) {
    return error_of([&] { with_attention(config, attention); });
  };
  CHECK(contains(fault({.pattern = "swe"}), "did you mean \"swa\""));
  CHECK(contains(fault({.pattern = "swa", .window = 0}), "window"));
  for (const char* layers : {"4", "-1", "1-9", "x", "1,,2", "all,1", ""}) {
    INFO(layers);
    CHECK(contains(fault({.pattern = "swa", .layers = layers}), "layer"));
  }
}
