#include <cmath>

#include "model/layer.h"

namespace flywheel {
namespace {

void gather_rows(Backend& backend, const TensorView& out, const TensorView& x,
                 const TensorView& rows) {
  ops::embedding_forward(
      backend, {.out = out, .ids = rows, .table = x, .position_table = {}, .positions = {}});
}

}  // namespace

AttentionBranch::AttentionBranch(const ModelConfig& config, const LayerSlots& slots,
                                 const ParameterSlabs& slabs,
                                 std::array<const AttentionPlan*, 2> plans)
    : heads_(config.heads),
      kv_heads_(config.kv_heads),
      scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(config.head_dim)))),
      norm_eps_(static_cast<float>(config.norm_eps)),
      plans_(plans),
      qkv_(slots.qkv, slabs),
      gates_(slots.gates, slabs),
      out_(slots.attention_out, slabs),
      q_norm_(slabs.weight(slots.q_norm)),
      k_norm_(slabs.weight(slots.k_norm)),
      dq_norm_(slabs.gradient(slots.q_norm)),
      dk_norm_(slabs.gradient(slots.k_norm)) {}

// The fused projections of the rows of attention.
TensorView AttentionBranch::project_in(const Pass& pass, const LayerBuffers& layer) const {
  const TensorView qkv = pass.matrix(layer.qkv);
  qkv_.forward(pass.backend, qkv, pass.matrix(layer.attention_norm.out), pass.decode);
  if (!pass.attention_rows) return qkv;
  const TensorView shared = pass.memory.matrix(layer.shared_qkv, pass.attention_tokens);
  gather_rows(pass.backend, shared, qkv, pass.attention_rows);
  return shared;
}

void AttentionBranch::forward(const Pass& pass, const LayerBuffers& layer) const {
  const ActivationMemory& memory = pass.memory;
  const std::int64_t tokens = pass.tokens;
  const std::int64_t rows = pass.attention_tokens;
  ops::split_heads_forward(pass.backend, {.q = memory.heads_first(layer.q, rows, heads_),
                                          .k = memory.heads_first(layer.k, rows, kv_heads_),
                                          .v = memory.heads_first(layer.v, rows, kv_heads_),
                                          .q_rstd = memory.matrix(layer.q_rstd, rows),
                                          .k_rstd = memory.matrix(layer.k_rstd, rows),
                                          .qkv = project_in(pass, layer),
                                          .q_norm_weight = q_norm_,
                                          .k_norm_weight = k_norm_,
                                          .cos = pass.cos,
                                          .sin = pass.sin,
                                          .positions = pass.attention_positions,
                                          .eps = norm_eps_});
  if (pass.slots) write_cache(pass, layer);
  attend(pass, layer, 0);
  if (pass.attention_rows) {
    gather_rows(pass.backend, pass.matrix(layer.attention), memory.matrix(layer.path_out[0], rows),
                pass.token_rows);
  }
  if (!gated()) return;
  // Decoded tokens that see the same keys on both paths need them once.
  const bool alike = pass.decode && decode_window(pass, 0) == decode_window(pass, 1);
  if (!alike) attend(pass, layer, 1);
  gates_.forward(pass.backend, pass.matrix(layer.gate_logits),
                 pass.matrix(layer.attention_norm.out), pass.decode);
  ops::gate_mix_forward(pass.backend,
                        {.out = memory.heads(layer.attention, tokens, heads_),
                         .a = memory.heads(layer.path_out[0], tokens, heads_),
                         .b = memory.heads(layer.path_out[alike ? 0 : 1], tokens, heads_),
                         .gate_logits = pass.matrix(layer.gate_logits)});
}

void AttentionBranch::write_cache(const Pass& pass, const LayerBuffers& layer) const {
  const ActivationMemory& memory = pass.memory;
  ops::kv_cache_write(pass.backend, {.k_cache = memory.cache(layer.k_cache, kv_heads_),
                                     .v_cache = memory.cache(layer.v_cache, kv_heads_),
                                     .k = memory.heads_first(layer.k, pass.tokens, kv_heads_),
                                     .v = memory.heads_first(layer.v, pass.tokens, kv_heads_),
                                     .slots = pass.slots,
                                     .positions = pass.positions});
}

void AttentionBranch::attend(const Pass& pass, const LayerBuffers& layer, std::size_t path) const {
  if (pass.decode) return attend_cached(pass, layer, path);
  const ActivationMemory& memory = pass.memory;
  const std::int64_t rows = pass.attention_tokens;
  ops::attention_forward(pass.backend,
                         {.out = memory.heads(path_out(pass, layer, path), rows, heads_),
                          .lse = memory.columns(layer.lse[path], rows),
                          .q = memory.heads_first(layer.q, rows, heads_),
                          .k = memory.heads_first(layer.k, rows, kv_heads_),
                          .v = memory.heads_first(layer.v, rows, kv_heads_),
                          .plan = plans_[path],
                          .scale = scale_});
}

// Where a path's output goes: what follows the only one reads it there, unless rows share tokens.
const Buffer& AttentionBranch::path_out(const Pass& pass, const LayerBuffers& layer,
                                        std::size_t path) const {
  return gated() || pass.attention_rows ? layer.path_out[path] : layer.attention;
}

// How many of the latest keys a path sees in decoding; 0: all.
std::int64_t AttentionBranch::decode_window(const Pass& pass, std::size_t path) const {
  const AttentionPattern& pattern = plans_[path]->pattern();
  return pass.decode_attention == DecodeAttention::Full ? 0 : pattern.window;
}

void AttentionBranch::attend_cached(const Pass& pass, const LayerBuffers& layer,
                                    std::size_t path) const {
  const ActivationMemory& memory = pass.memory;
  const std::int64_t tokens = pass.tokens;
  ops::attention_decode(pass.backend,
                        {.out = memory.heads(path_out(pass, layer, path), tokens, heads_),
                         .q = memory.heads_first(layer.q, tokens, heads_),
                         .k_cache = memory.cache(layer.k_cache, kv_heads_),
                         .v_cache = memory.cache(layer.v_cache, kv_heads_),
                         .slots = pass.slots,
                         .positions = pass.positions,
                         .window = decode_window(pass, path),
                         .scale = scale_});
}

void AttentionBranch::project(const Pass& pass, const LayerBuffers& layer) const {
  out_.forward(pass.backend, pass.matrix(pass.buffers().branch), pass.matrix(layer.attention),
               pass.decode);
}

void AttentionBranch::backward(const Pass& pass, const LayerBuffers& layer) const {
  const ActivationMemory& memory = pass.memory;
  const ModelBuffers& shared = pass.buffers();
  const TensorView dattention = memory.heads(shared.dattention, pass.tokens, heads_);
  out_.backward(pass.backend, pass.matrix(shared.dattention), pass.matrix(shared.dx),
                pass.matrix(layer.attention));
  if (!gated()) {
    attend_backward(pass, layer, 0, dattention);
  } else {
    const TensorView dsecond = memory.heads(shared.dpath, pass.tokens, heads_);
    ops::gate_mix_backward(pass.backend, {.da = dattention,
                                          .db = dsecond,
                                          .dgate_logits = pass.matrix(layer.dgate_logits),
                                          .dout = dattention,
                                          .a = memory.heads(layer.path_out[0], pass.tokens, heads_),
                                          .b = memory.heads(layer.path_out[1], pass.tokens, heads_),
                                          .gate_logits = pass.matrix(layer.gate_logits)});
    attend_backward(pass, layer, 0, dattention);
    attend_backward(pass, layer, 1, dsecond);
  }
  if (q_norm_) split_backward(pass, layer);
  const TensorView input = pass.matrix(layer.attention_norm.out);
  const TensorView dinput = pass.matrix(shared.dnorm);
  qkv_.backward(pass.backend, dinput, pass.matrix(shared.dqkv), input);
  if (gated()) {
    gates_.backward(pass.backend, dinput, pass.matrix(layer.dgate_logits), input, true);
  }
}

// Where the paths' gradients add up: in those of the fused projections, unless they go back through
// the norms first.
AttentionBranch::HeadGradients AttentionBranch::head_gradients(const Pass& pass) const {
  const ActivationMemory& memory = pass.memory;
  const ModelBuffers& shared = pass.buffers();
  if (q_norm_) {
    return {memory.heads_first(shared.dq, pass.tokens, heads_),
            memory.heads_first(shared.dk, pass.tokens, kv_heads_),
            memory.heads_first(shared.dv, pass.tokens, kv_heads_)};
  }
  const std::int64_t all = heads_ + 2 * kv_heads_;
  const TensorView dqkv = memory.heads(shared.dqkv, pass.tokens, all);
  return {dqkv.heads(0, heads_), dqkv.heads(heads_, heads_ + kv_heads_),
          dqkv.heads(heads_ + kv_heads_, all)};
}

void AttentionBranch::attend_backward(const Pass& pass, const LayerBuffers& layer, std::size_t path,
                                      const TensorView& dout) const {
  const ActivationMemory& memory = pass.memory;
  const std::int64_t tokens = pass.tokens;
  const HeadGradients gradients = head_gradients(pass);
  // The sum of the paths is turned back, by the last one.
  const bool turn = !q_norm_ && path == (gated() ? 1 : 0);
  ops::attention_backward(pass.backend, {.dq = gradients.dq,
                                         .dk = gradients.dk,
                                         .dv = gradients.dv,
                                         .dout = dout,
                                         .out = memory.heads(layer.path_out[path], tokens, heads_),
                                         .lse = memory.columns(layer.lse[path], tokens),
                                         .q = memory.heads_first(layer.q, tokens, heads_),
                                         .k = memory.heads_first(layer.k, tokens, kv_heads_),
                                         .v = memory.heads_first(layer.v, tokens, kv_heads_),
                                         .cos = turn ? pass.cos : TensorView(),
                                         .sin = turn ? pass.sin : TensorView(),
                                         .positions = turn ? pass.positions : TensorView(),
                                         .plan = plans_[path],
                                         .scale = scale_,
                                         .accumulate = path > 0});
}

// Back through RoPE and the q/k norms.
void AttentionBranch::split_backward(const Pass& pass, const LayerBuffers& layer) const {
  const HeadGradients gradients = head_gradients(pass);
  ops::split_heads_backward(pass.backend, {.dqkv = pass.matrix(pass.buffers().dqkv),
                                           .dq_norm_weight = dq_norm_,
                                           .dk_norm_weight = dk_norm_,
                                           .dq = gradients.dq,
                                           .dk = gradients.dk,
                                           .dv = gradients.dv,
                                           .qkv = pass.matrix(layer.qkv),
                                           .q_rstd = pass.matrix(layer.q_rstd),
                                           .k_rstd = pass.matrix(layer.k_rstd),
                                           .q_norm_weight = q_norm_,
                                           .k_norm_weight = k_norm_,
                                           .cos = pass.cos,
                                           .sin = pass.sin,
                                           .positions = pass.positions});
}

}  // namespace flywheel
