#pragma once

#include <set>
#include <string>

#include "core/shape.h"
#include "model/model_config.h"
#include "model/weights_source.h"

namespace flywheel {

// The tensor of a parameter. Error Data: missing, or of another shape.
const StoredTensor& find_tensor(const WeightsSource& weights, const std::string& name,
                                const Shape& shape);

// Error Data names a tensor that the model has no use for, so that no bias or norm is left out
// silently. Left out on purpose: an output layer that the config ties to the embedding, and the
// masks and rotary tables that older files carry.
void require_all_used(const WeightsSource& weights, const std::set<std::string>& used,
                      const ModelConfig& config);

}  // namespace flywheel
