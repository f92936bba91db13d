#include "bench/models.h"

#include <map>

#include "core/error.h"

namespace flywheel::bench {
namespace {

struct Size {
  std::int64_t vocab_size, hidden_size, layers, heads, kv_heads, intermediate_size;
};

}  // namespace

ModelConfig model_named(const std::string& name) {
  const std::map<std::string, Size> sizes{{"tiny", {256, 128, 2, 2, 2, 192}},
                                          {"10m", {4096, 256, 10, 4, 4, 704}},
                                          {"124m", {50257, 768, 12, 12, 12, 3072}},
                                          {"135m", {49152, 576, 30, 9, 3, 1536}},  // SmolLM2
                                          {"360m", {50257, 1024, 24, 16, 16, 2816}}};
  const auto found = sizes.find(name);
  require(found != sizes.end(), ErrorKind::Config,
          "--model {}: expected tiny, 10m, 124m, 135m or 360m", name);
  const Size& size = found->second;
  ModelConfig config;
  config.vocab_size = size.vocab_size;
  config.hidden_size = size.hidden_size;
  config.layers = size.layers;
  config.heads = size.heads;
  config.kv_heads = size.kv_heads;
  config.intermediate_size = size.intermediate_size;
  config.max_positions = 1 << 16;
  if (name == "124m") {  // GPT-2 small
    config.norm = NormKind::LayerNorm;
    config.position = PositionKind::Learned;
    config.mlp = MlpKind::Gelu;
    config.attention_bias = true;
    config.mlp_bias = true;
    config.max_positions = 1024;
  }
  return config;
}

}  // namespace flywheel::bench
