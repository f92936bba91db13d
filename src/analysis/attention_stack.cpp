#include "analysis/attention_stack.h"

namespace flywheel {

AttentionStack uniform_stack(const std::string& pattern, const AttentionConfig& section,
                             std::int64_t layers) {
  ModelConfig config;
  config.layers = layers;
  config.attention = section;
  config.attention.pattern = {{.pattern = pattern}};
  require_valid(config);
  return {.name = pattern, .layers = resolve_layers(config)};
}

std::vector<AttentionPattern> paths_of(const LayerAttention& layer) {
  if (layer.gated) return {layer.path, layer.swa_path};
  return {layer.path};
}

}  // namespace flywheel
