#include "model/layer_plans.h"

#include <algorithm>

namespace flywheel {

LayerPlans::LayerPlans(const std::vector<LayerAttention>& layers, Backend& backend,
                       const TransformerLimits& limits) {
  for (const LayerAttention& attention : layers) {
    const auto layer = static_cast<std::uint32_t>(layers_.size());
    const AttentionPlan* path = plan_for(attention.path, layer, backend, limits);
    const AttentionPlan* second =
        attention.gated ? plan_for(attention.swa_path, layer, backend, limits) : nullptr;
    layers_.push_back({path, second});
  }
}

const AttentionPlan* LayerPlans::plan_for(const AttentionPattern& pattern, std::uint32_t layer,
                                          const Backend& backend, const TransformerLimits& limits) {
  if (pattern.kind != AttentionKind::Sa) {
    for (const Entry& entry : plans_) {
      if (entry.plan->pattern() == pattern) return entry.plan.get();
    }
  }
  const std::int64_t rows = std::max(limits.max_tokens, limits.max_attention_rows);
  plans_.push_back({std::make_unique<AttentionPlan>(pattern, backend.attention_tile(), rows,
                                                    limits.max_sequences),
                    layer});
  return plans_.back().plan.get();
}

void LayerPlans::prepare(Backend& backend, std::span<const std::int32_t> cu_seqlens,
                         const PermutationDraw& draw, std::uint32_t first_sequence) {
  for (const Entry& entry : plans_) {
    const PermutationKey key{
        .seed = draw.seed, .stream = draw.stream, .layer = entry.layer, .draw = draw.draw};
    entry.plan->prepare(cu_seqlens, key, first_sequence);
    backend.upload_plan(*entry.plan);
  }
}

}  // namespace flywheel
