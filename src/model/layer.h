#pragma once

#include <optional>

#include "attention/plan.h"
#include "model/activations.h"
#include "model/modules.h"
#include "model/transformer.h"

namespace flywheel {

// What all layers of one pass share.
struct Pass {
  Backend& backend;
  const ActivationMemory& memory;
  std::int64_t tokens = 0;
  TensorView positions;               // [T]
  std::int64_t attention_tokens = 0;  // A; T where no sequences share tokens
  TensorView attention_positions;     // [A]
  TensorView attention_rows;          // [A], the token of each; empty: the tokens themselves
  TensorView token_rows;              // [T], with attention_rows: one of each token's
  TensorView cos, sin;                // [P, D/2], rotary positions
  TensorView slots;                   // [T], of the key-value cache; empty: nothing is cached
  bool decode = false;                // rows are new tokens, one a sequence, that read the cache
  DecodeAttention decode_attention = DecodeAttention::Full;
  const WeightsNeeded* weights_needed = nullptr;  // null: all weights are in memory

  const ModelBuffers& buffers() const { return memory.buffers(); }
  TensorView matrix(const Buffer& buffer) const { return memory.matrix(buffer, tokens); }
  NormStatistics statistics(const NormBuffers& norm) const {
    return {memory.vector(norm.rstd, tokens), memory.vector(norm.mean, tokens)};
  }
};

// Attention between its norm and its residual: projections, one path or two gated ones, output
// projection.
class AttentionBranch {
 public:
  // `plans`: the path's plan, and the second path's of a gated layer.
  AttentionBranch(const ModelConfig& config, const LayerSlots& slots, const ParameterSlabs& slabs,
                  std::array<const AttentionPlan*, 2> plans);

  // From the norm's output to what the output projection reads.
  void forward(const Pass& pass, const LayerBuffers& layer) const;
  void project(const Pass& pass, const LayerBuffers& layer) const;  // into `branch`
  // From dx, the gradient of the branch's output, to dnorm.
  void backward(const Pass& pass, const LayerBuffers& layer) const;
  bool gated() const { return plans_[1] != nullptr; }

 private:
  struct HeadGradients {
    TensorView dq, dk, dv;
  };

  TensorView project_in(const Pass& pass, const LayerBuffers& layer) const;
  void attend(const Pass& pass, const LayerBuffers& layer, std::size_t path) const;
  void attend_cached(const Pass& pass, const LayerBuffers& layer, std::size_t path) const;
  void write_cache(const Pass& pass, const LayerBuffers& layer) const;
  const Buffer& path_out(const Pass& pass, const LayerBuffers& layer, std::size_t path) const;
  std::int64_t decode_window(const Pass& pass, std::size_t path) const;
  HeadGradients head_gradients(const Pass& pass) const;
  void attend_backward(const Pass& pass, const LayerBuffers& layer, std::size_t path,
                       const TensorView& dout) const;
  void split_backward(const Pass& pass, const LayerBuffers& layer) const;

  std::int64_t heads_;
  std::int64_t kv_heads_;
  float scale_;
  float norm_eps_;
  std::array<const AttentionPlan*, 2> plans_;
  Linear qkv_, gates_, out_;
  TensorView q_norm_, k_norm_, dq_norm_, dk_norm_;
};

// A mixture of experts (forward only).
class Experts {
 public:
  Experts(const ModelConfig& config, const LayerSlots& slots, const ParameterSlabs& slabs);

  void forward(const Pass& pass, const LayerBuffers& layer) const;  // up to the activation
  void project(const Pass& pass, const LayerBuffers& layer) const;  // into `branch`

 private:
  void need_chosen(const Pass& pass, const TensorView& offsets) const;

  std::int64_t layer_;
  std::int64_t per_token_;
  bool normalize_;
  Linear router_;
  TensorView in_, out_;
};

// The MLP between its norm and its residual.
class MlpBranch {
 public:
  MlpBranch(const ModelConfig& config, const LayerSlots& slots, const ParameterSlabs& slabs);

  void forward(const Pass& pass, const LayerBuffers& layer) const;   // up to the activation
  void project(const Pass& pass, const LayerBuffers& layer) const;   // into `branch`
  void backward(const Pass& pass, const LayerBuffers& layer) const;  // from dx to dnorm

 private:
  MlpKind kind_;
  std::optional<Experts> experts_;
  Linear in_, out_;
};

// One layer's parameters and buffers.
struct Layer {
  LayerBuffers buffers;
  Norm attention_norm;
  AttentionBranch attention;
  Norm mlp_norm;
  MlpBranch mlp;
};

}  // namespace flywheel
