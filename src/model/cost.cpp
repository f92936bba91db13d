#include "attention/counts.h"
#include "model/parameters.h"
#include "model/transformer.h"

namespace flywheel {

ModelCost Transformer::cost(const ModelConfig& config, std::int64_t sequence_length) {
  require_valid(config);
  const ModelConfig c = with_defaults(config);
  const ParameterLayout layout = lay_out_parameters(c);
  ModelCost cost;
  for (const ParameterSpec& spec : layout.specs) {
    const std::int64_t elements = spec.slot.shape.elements();
    const bool looked_up = spec.slot.offset == layout.position_embedding.offset ||
                           (!c.tie_embeddings && spec.slot.offset == layout.embedding.offset);
    cost.parameters += elements;
    if (spec.slot.shape.rank() != 2 || looked_up) continue;
    const bool expert = spec.name.find(".mlp.experts.") != std::string::npos;
    cost.matmul_parameters += expert ? elements * c.experts.per_token / c.experts.count : elements;
  }
  double visible = 0;
  for (const LayerAttention& layer : resolve_layers(c)) {
    visible += mean_visible_keys(layer.path, sequence_length);
    if (layer.gated) visible += mean_visible_keys(layer.swa_path, sequence_length);
  }
  cost.mean_visible_keys = visible / static_cast<double>(c.layers);
  cost.flops_per_token = 6.0 * static_cast<double>(cost.matmul_parameters) +
                         14.0 * static_cast<double>(c.heads * c.head_dim) * visible;
  return cost;
}

}  // namespace flywheel
