#include "model/activation_planner.h"

#include <algorithm>

#include "model/parameters.h"

namespace flywheel {

ActivationPlanner::ActivationPlanner(const ModelConfig& config, const TransformerLimits& limits,
                                     std::int64_t loss_chunk, MemoryPlan& kept,
                                     MemoryPlan& workspace)
    : config_(config),
      limits_(limits),
      loss_chunk_(loss_chunk),
      type_(activation_type(limits)),
      kept_(kept),
      workspace_(workspace) {}

ModelBuffers ActivationPlanner::plan() {
  const std::int64_t d = config_.hidden_size;
  const std::vector<LayerAttention> layers = resolve_layers(config_);
  ModelBuffers buffers;
  for (const LayerAttention& attention : layers) buffers.layers.push_back(layer(attention));
  buffers.x_final =
      limits_.training ? share(activation("x_final", d), kForward | kLoss) : buffers.layers[0].x;
  buffers.final_norm.out = share(activation("final_norm", d), kForward | kLoss);
  buffers.final_norm.rstd = share({"final_norm.rstd", 1}, kForward | kLoss);
  if (config_.norm == NormKind::LayerNorm) {
    buffers.final_norm.mean = share({"final_norm.mean", 1}, kForward | kLoss);
  }
  buffers.branch = share(activation("branch", d), kForward | kRecompute);
  buffers.logits = share(activation("logits", padded_vocab_size(config_), loss_chunk_), kLoss);
  buffers.gathered = share(activation("gathered", d, loss_chunk_), kLoss);
  buffers.losses = keep({"inputs and losses", 1});
  buffers.most_likely = keep({"inputs and losses", 1, DType::I32});
  buffers.ids = keep({"inputs and losses", 1, DType::I32});
  buffers.targets = keep({"inputs and losses", 1, DType::I32});
  buffers.positions = keep({"inputs and losses", 1, DType::I32});
  if (limits_.cache_slots > 0) buffers.slots = keep({"inputs and losses", 1, DType::I32});
  if (const std::int64_t rows = limits_.max_attention_rows; rows > 0) {
    buffers.attention_rows = keep({"inputs and losses", 1, DType::I32, rows});
    buffers.attention_positions = keep({"inputs and losses", 1, DType::I32, rows});
    buffers.token_rows = keep({"inputs and losses", 1, DType::I32});
  }
  if (limits_.training) plan_gradients(buffers, layers);
  return buffers;
}

void ActivationPlanner::plan_gradients(ModelBuffers& buffers,
                                       const std::vector<LayerAttention>& layers) {
  const std::int64_t d = config_.hidden_size;
  const std::int64_t q = config_.heads * config_.head_dim;
  const std::int64_t kv = config_.kv_heads * config_.head_dim;
  buffers.dx = share(activation("dx", d), kLoss | kBackward);
  buffers.dnorm = share(activation("dnorm", d), kLoss | kBackwardMlp | kBackwardAttention);
  buffers.dmlp_act = share(activation("dmlp_act", config_.intermediate_size), kBackwardMlp);
  buffers.dattention = share(activation("dattention", q), kBackwardAttention);
  if (config_.qk_norm) {
    buffers.dq = share(activation("dq", q), kBackwardAttention);
    buffers.dk = share(activation("dk", kv), kBackwardAttention);
    buffers.dv = share(activation("dv", kv), kBackwardAttention);
  }
  buffers.dqkv = share(activation("dqkv", q + 2 * kv), kBackwardAttention);
  const bool gated = std::any_of(layers.begin(), layers.end(),
                                 [](const LayerAttention& layer) { return layer.gated; });
  if (gated) buffers.dpath = share(activation("dpath", q), kBackwardAttention);
}

LayerBuffers ActivationPlanner::layer(const LayerAttention& layer_attention) {
  const std::int64_t d = config_.hidden_size;
  const std::int64_t f = config_.intermediate_size;
  LayerBuffers layer;
  layer.x = saved(Kept::Always, "residual stream", activation("x", d), kForward | kLoss);
  layer.attention_norm = norm("attention_norm", kForward | kBackwardAttention);
  attention(layer, layer_attention);
  layer.x_mid = limits_.training
                    ? saved(Kept::UnlessLayer, "residual stream", activation("x_mid", d), kForward)
                    : layer.x;
  layer.mlp_norm = norm("mlp_norm", kForward | kBackwardMlp);
  if (const std::int64_t rows = limits_.cache_slots * limits_.cache_length; rows > 0) {
    const std::int64_t kv = config_.kv_heads * config_.head_dim;
    layer.k_cache = keep(activation("key-value cache", kv, rows));
    layer.v_cache = keep(activation("key-value cache", kv, rows));
  }
  if (config_.experts.count > 0) {
    experts(layer);
    return layer;
  }
  const std::int64_t in = config_.mlp == MlpKind::Swiglu ? 2 * f : f;
  layer.mlp_in = saved(Kept::OnlyIfNone, "mlp", activation("mlp_in", in), kForward | kBackwardMlp);
  layer.mlp_act = saved(Kept::OnlyIfNone, "mlp", activation("mlp_act", f), kForward | kBackwardMlp);
  return layer;
}

// For inference only: nothing is kept.
void ActivationPlanner::experts(LayerBuffers& layer) {
  const std::int64_t k = config_.experts.per_token;
  const std::int64_t f = config_.experts.intermediate_size;
  ExpertBuffers& experts = layer.experts;
  experts.logits = share({"router logits", config_.experts.count}, kForward);
  experts.weights = share({"expert weights", k}, kForward);
  experts.slots = share({"expert slots", k, DType::I32}, kForward);
  experts.rows = share({"expert rows", k, DType::I32}, kForward);
  experts.offsets = share({"expert offsets", config_.experts.count + 1, DType::I32, 1}, kForward);
  experts.in = share(activation("experts in", k * config_.hidden_size), kForward);
  experts.out = share(activation("experts out", k * config_.hidden_size), kForward);
  layer.mlp_in = share(activation("mlp_in", 2 * k * f), kForward);
  layer.mlp_act = share(activation("mlp_act", k * f), kForward);
}

void ActivationPlanner::attention(LayerBuffers& layer, const LayerAttention& attention) {
  const std::int64_t q = config_.heads * config_.head_dim;
  const std::int64_t kv = config_.kv_heads * config_.head_dim;
  const std::int64_t shared = limits_.max_attention_rows;
  const std::int64_t rows = shared > 0 ? std::max(shared, limits_.max_tokens) : 0;
  const auto saved_value = [this, rows](Request request) {
    request.rows = rows;
    return rows > 0 ? share(request, kForward)
                    : saved(Kept::UnlessLayer, "attention", request, kForward);
  };
  const auto value = [&](const std::string& name, std::int64_t width) {
    return saved_value(activation(name, width));
  };
  // Only the backward pass of the q/k norm reads the fused projections again.
  layer.qkv = config_.qk_norm ? value("qkv", q + 2 * kv)
                              : share(activation("qkv", q + 2 * kv), kForward | kRecompute);
  layer.q = value("q", q);
  layer.k = value("k", kv);
  layer.v = value("v", kv);
  if (config_.qk_norm) {
    layer.q_rstd = saved_value({"q_rstd", config_.heads});
    layer.k_rstd = saved_value({"k_rstd", config_.kv_heads});
  }
  layer.path_out[0] = value("path_out", q);
  layer.lse[0] = saved_value({"lse", config_.heads});
  layer.attention = layer.path_out[0];
  if (shared > 0) {
    layer.shared_qkv = share(activation("shared_qkv", q + 2 * kv, shared), kForward);
    layer.attention = share(activation("attention", q), kForward);
  }
  if (!attention.gated) return;
  layer.path_out[1] = value("second path_out", q);
  layer.lse[1] = saved_value({"second lse", config_.heads});
  const std::int64_t gates =
      2 * config_.heads * (attention.gate == GateKind::Head ? 1 : config_.head_dim);
  layer.gate_logits = value("gate_logits", gates);
  if (limits_.training)
    layer.dgate_logits = share(activation("dgate_logits", gates), kBackwardAttention);
  layer.attention = value("mixed", q);
}

NormBuffers ActivationPlanner::norm(const std::string& name, MemoryPlan::Phases phases) {
  NormBuffers norm;
  norm.out = saved(Kept::OnlyIfNone, "norms", activation(name, config_.hidden_size), phases);
  norm.rstd = saved(Kept::UnlessLayer, "norms", {name + ".rstd", 1}, kForward);
  if (config_.norm == NormKind::LayerNorm) {
    norm.mean = saved(Kept::UnlessLayer, "norms", {name + ".mean", 1}, kForward);
  }
  return norm;
}

bool ActivationPlanner::keeps(Kept kept) const {
  if (!limits_.training) return false;
  switch (kept) {
    case Kept::Always:
      return true;
    case Kept::UnlessLayer:
      return limits_.recompute != RecomputePolicy::Layer;
    case Kept::OnlyIfNone:
      return limits_.recompute == RecomputePolicy::None;
  }
  return true;
}

Buffer ActivationPlanner::saved(Kept kept, const std::string& line, Request request,
                                MemoryPlan::Phases phases) {
  if (keeps(kept)) {
    request.name = "activations: " + line;
    return keep(request);
  }
  const bool recomputed = limits_.training && limits_.recompute == RecomputePolicy::Layer;
  return share(request, recomputed ? kForward | kBackward : phases);
}

std::int64_t ActivationPlanner::bytes(const Request& request) const {
  const std::int64_t rows = request.rows > 0 ? request.rows : limits_.max_tokens;
  return rows * request.width * size_of(request.dtype);
}

Buffer ActivationPlanner::keep(const Request& request) {
  const int number = kept_.add(request.name, bytes(request));
  return {.number = number, .workspace = false, .width = request.width, .dtype = request.dtype};
}

Buffer ActivationPlanner::share(const Request& request, MemoryPlan::Phases phases) {
  for (const Buffer& buffer : shared_) {
    const bool same = workspace_.buffer(buffer.number).name == request.name;
    if (same && buffer.width == request.width) return buffer;
  }
  shared_.push_back({.number = workspace_.add(request.name, bytes(request), phases),
                     .workspace = true,
                     .width = request.width,
                     .dtype = request.dtype});
  return shared_.back();
}

}  // namespace flywheel
