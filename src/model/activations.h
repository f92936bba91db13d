#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/memory_plan.h"
#include "model/model_config.h"
#include "model/transformer.h"

namespace flywheel {

// A planned buffer of `width` elements a token. Kept buffers hold one layer's value until its
// backward pass; buffers of the workspace are shared by all layers and by phases that never meet.
struct Buffer {
  int number = -1;  // in its plan; -1: not needed by this model
  bool workspace = false;
  std::int64_t width = 0;
  DType dtype = DType::F32;
  explicit operator bool() const { return number >= 0; }
};

struct NormBuffers {
  Buffer out;  // d
  Buffer rstd;
  Buffer mean;  // LayerNorm
};

// Of a mixture of experts, K experts a token: mlp_in and mlp_act are K times as wide.
struct ExpertBuffers {
  Buffer logits;   // E
  Buffer weights;  // K
  Buffer slots;    // K, i32
  Buffer rows;     // K, i32
  Buffer offsets;  // one row of E + 1, i32
  Buffer in;       // K d, the tokens grouped by expert
  Buffer out;      // K d
};

struct LayerBuffers {
  Buffer x;  // d, the layer's input
  NormBuffers attention_norm;
  Buffer qkv;                        // Q
  Buffer shared_qkv;                 // Q, of each attention row
  Buffer q, k, v;                    // head-major
  Buffer q_rstd, k_rstd;             // H, Hkv
  std::array<Buffer, 2> path_out;    // H D; the second of gated layers
  std::array<Buffer, 2> lse;         // H
  Buffer gate_logits, dgate_logits;  // 2 G
  Buffer attention;                  // H D a token, what the output projection reads
  Buffer x_mid;                      // d, after the attention's residual
  NormBuffers mlp_norm;
  Buffer mlp_in;   // f or 2 f
  Buffer mlp_act;  // f
  ExpertBuffers experts;
  Buffer k_cache, v_cache;  // Hkv D a cached token
};

struct ModelBuffers {
  std::vector<LayerBuffers> layers;
  Buffer x_final;  // d, the last layer's output
  NormBuffers final_norm;
  Buffer branch;    // d, output of an attention or MLP branch
  Buffer logits;    // a chunk of rows, Vp wide
  Buffer gathered;  // a chunk of rows, d wide
  Buffer losses;
  Buffer most_likely;
  Buffer ids, targets, positions;
  Buffer slots;                                            // of the key-value cache
  Buffer attention_rows, attention_positions, token_rows;  // of sequences that share tokens

  // Gradients, named after what they belong to.
  Buffer dx;     // d, of the residual stream
  Buffer dnorm;  // d, of a norm's output
  Buffer dmlp_act;
  Buffer dattention;
  Buffer dpath;       // H D, of a gated layer's second path
  Buffer dq, dk, dv;  // head-major; of models with q/k norms
  Buffer dqkv;
};

// Plans all activations of a model before the first pass; allocate() then makes the two slabs.
class ActivationMemory {
 public:
  ActivationMemory(const ModelConfig& config, const TransformerLimits& limits);
  void allocate(Backend& backend);

  const ModelBuffers& buffers() const { return buffers_; }
  std::int64_t loss_chunk() const { return loss_chunk_; }
  std::vector<MemoryLine> lines() const;

  TensorView vector(const Buffer& buffer, std::int64_t tokens) const;   // [T]
  TensorView matrix(const Buffer& buffer, std::int64_t tokens) const;   // [T, width]
  TensorView columns(const Buffer& buffer, std::int64_t tokens) const;  // [width, T]
  // [T, heads, width / heads], token-major and head-major.
  TensorView heads(const Buffer& buffer, std::int64_t tokens, std::int64_t heads) const;
  TensorView heads_first(const Buffer& buffer, std::int64_t tokens, std::int64_t heads) const;
  // [slots, heads, length, width / heads] of a key-value cache.
  TensorView cache(const Buffer& buffer, std::int64_t heads) const;

 private:
  void* data(const Buffer& buffer) const;

  ModelBuffers buffers_;
  MemoryPlan kept_;
  MemoryPlan workspace_;
  std::int64_t loss_chunk_ = 0;
  std::int64_t cache_slots_;
  std::int64_t cache_length_;
  DeviceKind device_ = DeviceKind::Cpu;
  std::unique_ptr<DeviceMemory> kept_memory_;
  std::unique_ptr<DeviceMemory> workspace_memory_;
};

// Downloads the first `columns` of each row of an activation, as float32.
void read_rows(Backend& backend, const TensorView& matrix, std::int64_t columns, float* out);

}  // namespace flywheel
