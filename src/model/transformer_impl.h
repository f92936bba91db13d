#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/layer.h"
#include "model/layer_plans.h"
#include "model/transformer.h"

namespace flywheel {

// Construction is in transformer.cpp, the passes are in transformer_pass.cpp and
// transformer_decode.cpp.
struct Transformer::Impl {
  Impl(const ModelConfig& model_config, Backend& device, const TransformerLimits& sizes);

  ParameterSlabs slabs() const {
    return {parameter_memory->data(), gradient_memory ? gradient_memory->data() : nullptr,
            rounded_memory ? rounded_memory->data() : nullptr, backend.device()};
  }
  TensorView slab(std::byte* begin) const;  // all of it, flat
  void list_parameters();
  void list_buckets();
  void build_layers();
  void upload_rope();

  // For Pass. Internal error if weights are streamed and nobody brings them.
  const WeightsNeeded* needed_weights() const;
  Pass begin(const PackedTokens& tokens, const PermutationDraw& draw);
  void share_tokens(Pass& pass, const PackedTokens& tokens);
  void begin_prefill(Pass& pass, const PackedTokens& prompts, std::span<const std::int32_t> slots);
  Pass begin_decode(std::span<const std::int32_t> tokens, std::span<const std::int32_t> slots,
                    DecodeAttention attention);
  void forward(const Pass& pass, const GateVisitor& visit_gates = {});
  void show_gates(const Pass& pass, std::size_t layer, const GateVisitor& visit);
  Pass queue_gradients(const PackedTokens& tokens, const PermutationDraw& draw, double loss_scale,
                       double z_loss, const BucketReady& ready = {});
  // Losses and, if gradient_scale is not 0, the gradients of head and final norm's output.
  void head_loss(const Pass& pass, float gradient_scale, float z_loss);
  double sum_losses(const Pass& pass, std::span<float> losses);
  void backward(const Pass& pass, const BucketReady& ready);
  void recompute_before_mlp(const Pass& pass, const Layer& layer);
  TensorView gather(const Pass& pass, std::span<const std::int64_t> rows);
  void head_score(const Pass& pass, std::span<const std::int64_t> rows,
                  std::span<const std::int32_t> targets, std::span<float> losses,
                  std::span<std::int32_t> most_likely);
  void head_logits(const Pass& pass, std::span<const std::int64_t> rows, float* out);

  const ModelConfig config;
  Backend& backend;
  const TransformerLimits limits;
  const ParameterLayout layout;
  ActivationMemory memory;
  LayerPlans plans;
  std::unique_ptr<DeviceMemory> parameter_memory, gradient_memory, rounded_memory, rope_memory;
  TensorView cos, sin;
  std::vector<Parameter> parameters;
  std::vector<SlabRange> buckets;
  TensorView embedding, dembedding, positions, dpositions, head, dhead;
  std::vector<Layer> layers;
  Norm final_norm;
  WeightsNeeded weights_needed;
  std::vector<float> host_losses;
  std::vector<std::int32_t> cached;  // tokens in each slot of the key-value cache
};

}  // namespace flywheel
