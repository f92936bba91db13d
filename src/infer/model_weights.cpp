#include "infer/model_weights.h"

#include <fmt/ranges.h>

#include "core/error.h"

namespace flywheel {
namespace {

// Tensors that a model may leave unread.
bool is_no_parameter(const std::string& name, const ModelConfig& config) {
  if (name == "lm_head.weight") return config.tie_embeddings;
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias") ||
         // A gated layer may run with another attention.
         name.find(".self_attn.gate_s") != std::string::npos;
}

}  // namespace

const StoredTensor& find_tensor(const WeightsSource& weights, const std::string& name,
                                const Shape& shape) {
  const StoredTensor* tensor = weights.find(name);
  require(tensor != nullptr, ErrorKind::Data, "{}: the tensor '{}' is missing",
          weights.path().string(), name);
  std::vector<std::int64_t> expected;
  for (int axis = 0; axis < shape.rank(); ++axis) expected.push_back(shape[axis]);
  require(tensor->shape == expected, ErrorKind::Data,
          "{}: tensor '{}' is [{}], the model's config makes it [{}]", weights.path().string(),
          name, fmt::join(tensor->shape, ", "), fmt::join(expected, ", "));
  return *tensor;
}

void require_all_used(const WeightsSource& weights, const std::set<std::string>& used,
                      const ModelConfig& config) {
  for (const auto& [name, tensor] : weights.tensors()) {
    require(used.contains(name) || is_no_parameter(name, config), ErrorKind::Data,
            "{}: the tensor '{}' has no place in the model that its config describes",
            weights.path().string(), name);
  }
}

}  // namespace flywheel
