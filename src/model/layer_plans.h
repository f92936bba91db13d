#pragma once

#include <array>
#include <memory>
#include <vector>

#include "attention/plan.h"
#include "backend/backend.h"
#include "model/model_config.h"
#include "model/transformer.h"

namespace flywheel {

// The attention plans of a model's layers: one for every sa path, whose permutation is the layer's
// own, and one for all paths of an equal full or swa pattern.
class LayerPlans {
 public:
  LayerPlans(const std::vector<LayerAttention>& layers, Backend& backend,
             const TransformerLimits& limits);

  // The path's plan, and the second path's of a gated layer (else null).
  std::array<const AttentionPlan*, 2> of(std::size_t layer) const { return layers_[layer]; }

  void prepare(Backend& backend, std::span<const std::int32_t> cu_seqlens,
               const PermutationDraw& draw, std::uint32_t first_sequence);

 private:
  struct Entry {
    std::unique_ptr<AttentionPlan> plan;
    std::uint32_t layer = 0;
  };
  const AttentionPlan* plan_for(const AttentionPattern& pattern, std::uint32_t layer,
                                const Backend& backend, const TransformerLimits& limits);

  std::vector<Entry> plans_;
  std::vector<std::array<const AttentionPlan*, 2>> layers_;
};

}  // namespace flywheel
