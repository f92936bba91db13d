#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace flywheel {

// The attention of a model's layers, the first layer first.
struct AttentionStack {
  std::string name;  // for tables and legends
  std::vector<LayerAttention> layers;
};

// `section` with the same pattern, full, swa, sa or sa_swa, in all layers. Error Config names an
// unknown pattern or a window below 1.
AttentionStack uniform_stack(const std::string& pattern, const AttentionConfig& section,
                             std::int64_t layers);

// What a layer's query sees is the union of these paths: one, or the two of a gated layer.
std::vector<AttentionPattern> paths_of(const LayerAttention& layer);

}  // namespace flywheel
