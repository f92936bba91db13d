#include <vector>

#include "model/layer.h"

namespace flywheel {

Experts::Experts(const ModelConfig& config, const LayerSlots& slots, const ParameterSlabs& slabs)
    : layer_(slots.index),
      per_token_(config.experts.per_token),
      normalize_(config.experts.normalize),
      router_(slots.router, slabs),
      in_(slabs.value(slots.experts_in.weight)),
      out_(slabs.value(slots.experts_out.weight)) {}

// Those that have rows.
void Experts::need_chosen(const Pass& pass, const TensorView& offsets) const {
  std::vector<std::int32_t> begins(static_cast<std::size_t>(offsets.elements()));
  pass.backend.download(begins.data(), offsets);
  std::vector<std::int32_t> chosen;
  for (std::size_t e = 0; e + 1 < begins.size(); ++e) {
    if (begins[e] < begins[e + 1]) chosen.push_back(static_cast<std::int32_t>(e));
  }
  (*pass.weights_needed)(layer_, chosen);
}

void Experts::forward(const Pass& pass, const LayerBuffers& layer) const {
  const ExpertBuffers& buffers = layer.experts;
  // [T, K w] as the rows of the pairs, [T K, w].
  const auto grouped = [&](const Buffer& buffer) {
    return pass.matrix(buffer).reshaped({pass.tokens * per_token_, buffer.width / per_token_});
  };
  const TensorView x = pass.matrix(layer.mlp_norm.out);
  const TensorView rows = pass.matrix(buffers.rows).reshaped({pass.tokens * per_token_});
  const TensorView offsets =
      pass.memory.matrix(buffers.offsets, 1).reshaped({buffers.offsets.width});
  router_.forward(pass.backend, pass.matrix(buffers.logits), x, pass.decode);
  ops::route_experts(pass.backend, {.weights = pass.matrix(buffers.weights),
                                    .slots = pass.matrix(buffers.slots),
                                    .rows = rows,
                                    .offsets = offsets,
                                    .logits = pass.matrix(buffers.logits),
                                    .normalize = normalize_});
  if (pass.weights_needed != nullptr) need_chosen(pass, offsets);
  ops::embedding_forward(pass.backend, {.out = grouped(buffers.in), .ids = rows, .table = x});
  ops::grouped_matmul(pass.backend, {.out = grouped(layer.mlp_in),
                                     .a = grouped(buffers.in),
                                     .b = in_,
                                     .offsets = offsets,
                                     .few_rows = pass.decode});
  ops::swiglu_forward(pass.backend,
                      {.out = grouped(layer.mlp_act), .gate_up = grouped(layer.mlp_in)});
  ops::grouped_matmul(pass.backend, {.out = grouped(buffers.out),
                                     .a = grouped(layer.mlp_act),
                                     .b = out_,
                                     .offsets = offsets,
                                     .few_rows = pass.decode});
}

void Experts::project(const Pass& pass, const LayerBuffers& layer) const {
  const ExpertBuffers& buffers = layer.experts;
  const std::int64_t width = buffers.out.width / per_token_;
  ops::combine_experts(pass.backend,
                       {.out = pass.matrix(pass.buffers().branch),
                        .x = pass.matrix(buffers.out).reshaped({pass.tokens * per_token_, width}),
                        .slots = pass.matrix(buffers.slots),
                        .weights = pass.matrix(buffers.weights)});
}

}  // namespace flywheel
