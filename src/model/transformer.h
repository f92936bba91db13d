#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/fields.h"
#include "core/philox.h"
#include "model/model_config.h"

namespace flywheel {

// One named parameter: Hugging Face's name and shape.
struct Parameter {
  std::string name;
  Shape shape;
  TensorView value;
  TensorView grad;     // empty in an inference-only model
  TensorView rounded;  // the bf16 copy that passes read; empty unless the precision is bfloat16
  bool decay = false;  // weight decay applies (matrices only)
  std::int64_t layer = -1;  // as in ParameterSpec
  std::int64_t expert = -1;
};

// What is kept from forward for backward. All policies give the same bits.
enum class RecomputePolicy : std::uint8_t {
  None,   // keep everything
  Mlp,    // recompute the MLP's inner activations and norms
  Layer,  // keep each layer's input only
};
constexpr auto enum_names(RecomputePolicy) {
  return std::array{EnumName{"none", RecomputePolicy::None}, EnumName{"mlp", RecomputePolicy::Mlp},
                    EnumName{"layer", RecomputePolicy::Layer}};
}

// What passes compute on (docs/numerics.md). Weights, their gradients, and what is summed up are
// float32 in either.
enum class Precision : std::uint8_t {
  Float32,
  Bfloat16,  // bf16 activations and copies of the weights; on a GPU
};
constexpr auto enum_names(Precision) {
  return std::array{EnumName{"float32", Precision::Float32},
                    EnumName{"bfloat16", Precision::Bfloat16}};
}

struct TransformerLimits {
  std::int64_t max_tokens = 0;          // of one micro-batch
  std::int64_t max_sequences = 0;       // of one micro-batch
  std::int64_t max_attention_rows = 0;  // inference: of PackedTokens::attention_rows; 0: none
  bool training = true;                 // false: no gradients, no saved activations
  RecomputePolicy recompute = RecomputePolicy::None;
  std::int64_t loss_chunk = 0;    // rows of logits at a time; 0 = chosen
  std::int64_t cache_slots = 0;   // sequences of the key-value cache; 0: none, no decoding
  std::int64_t cache_length = 0;  // tokens of each
  // How the weights of products and the embedding are kept: F32, or for inference F16, BF16 or
  // Q8_0. Arithmetic is in float32, with the bits that the same values in F32 give, or, with
  // Q8_0, as exactly.
  DType weights = DType::F32;
  Precision precision = Precision::Float32;  // of training
  // For inference: memory for parameters is only reserved (Backend::reserve), and
  // Transformer::stream_weights() says who brings a layer's before they are read.
  bool streamed = false;
};

// Of activations.
constexpr DType activation_type(const TransformerLimits& limits) {
  return limits.precision == Precision::Bfloat16 ? DType::BF16 : DType::F32;
}

// What a decoded token sees (docs/generation.md).
enum class DecodeAttention : std::uint8_t {
  Full,    // all cached keys, whatever the layer's pattern
  Window,  // of a path with a window w (swa, sa) the last w keys; all of others
};
constexpr auto enum_names(DecodeAttention) {
  return std::array{EnumName{"full", DecodeAttention::Full},
                    EnumName{"window", DecodeAttention::Window}};
}

// Host-side input of one pass; sequences are packed back to back.
struct PackedTokens {
  std::span<const std::int32_t> inputs;      // [T]
  std::span<const std::int32_t> targets;     // [T], -1 = not counted
  std::span<const std::int32_t> positions;   // [T]
  std::span<const std::int32_t> cu_seqlens;  // [S + 1]
  std::uint32_t first_sequence = 0;          // number of sequence 0 within the global batch
  // [A], for inference without sa paths: sequences that begin alike. Row a of attention is token
  // attention_rows[a], cu_seqlens counts these rows, and each token is one of them at least; it
  // comes after the same tokens wherever it is. Empty: the tokens themselves.
  std::span<const std::int32_t> attention_rows = {};
};

// Which permutations the sa paths draw.
struct PermutationDraw {
  std::uint64_t seed = 0;
  RandomStream stream = RandomStream::kTrainingPermutation;
  std::uint32_t draw = 0;
};

struct MemoryLine {
  std::string name;  // "parameters", "gradients", "activations: attention", ...
  std::int64_t bytes = 0;
};

struct ModelCost {
  std::int64_t parameters = 0;  // tied counted once, padding not counted
  std::int64_t matmul_parameters =
      0;  // weights that take part in a token's matmuls (a tied table counts as the head)
  double flops_per_token =
      0;  // training: 6 N_matmul + 14 D visible pairs a head (4 D forward, 10 D backward)
  double mean_visible_keys = 0;  // over positions and layers, both paths of gated layers counted
};

// Where a pass leaves the sum of its losses on the device.
struct LossSum {
  TensorView out;           // [1] f64
  bool accumulate = false;  // add to what is there
};

// Elements [begin, end) of a slab.
struct SlabRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// All work has been queued that this pass has for the gradients of a bucket.
using BucketReady = std::function<void(std::size_t bucket)>;

// The gates' logits of one gated layer, [T, 2 G] row-major: those of sa, then those of swa; G is
// the number of heads, or of all heads' channels.
using GateVisitor = std::function<void(std::int64_t layer, std::span<const float> logits)>;

// A pass is about to read parameters of a layer: those of `experts`, or, without any, all others.
using WeightsNeeded =
    std::function<void(std::int64_t layer, std::span<const std::int32_t> experts)>;

class Transformer {
 public:
  // Allocates everything; nothing is allocated in a pass but by streamed weights.
  Transformer(const ModelConfig& config, Backend& backend, const TransformerLimits& limits);
  ~Transformer();

  const ModelConfig& config() const;
  std::span<const Parameter> parameters() const;
  // The slabs that hold all parameters and, alike, their gradients, [n]. Of a training model.
  TensorView parameter_slab() const;
  TensorView gradient_slab() const;
  TensorView rounded_slab() const;  // the bf16 copies alike; empty in float32
  // Ranges of the slabs, in order, whose gradients are ready at different times of a pass.
  std::span<const SlabRange> buckets() const;

  // N(0, initializer_range^2), residual output projections scaled by 1/sqrt(2 layers), norms 1,
  // biases and gates 0. A pure function of (seed, parameter name, index).
  void initialize(std::uint64_t seed);
  // Makes the bf16 copies as update number `update` of the optimizer does; 0: to the nearest. For
  // weights that came from elsewhere. Nothing to do in float32.
  void round_weights(std::uint64_t seed, std::int64_t update);
  // Who is called in every pass from now on, if `limits` say that weights are streamed.
  void stream_weights(WeightsNeeded needed);
  void zero_gradients();

  // Adds the gradient of loss_scale * sum of losses (+ z-loss) to the gradients. Returns the sum of
  // the losses.
  double forward_backward(const PackedTokens& tokens, const PermutationDraw& draw,
                          double loss_scale, double z_loss = 0);
  // The same without waiting for the device: the sum goes to `loss_sum`. Calls `ready` for each
  // bucket.
  void queue_forward_backward(const PackedTokens& tokens, const PermutationDraw& draw,
                              double loss_scale, double z_loss, const LossSum& loss_sum,
                              const BucketReady& ready = {});
  // Losses only, one a token, in nats. Returns their sum.
  double forward(const PackedTokens& tokens, const PermutationDraw& draw, std::span<float> losses);
  // For row rows[i], which may repeat: the loss in nats of targets[i] there and the most likely
  // token (the lowest of equals). The targets of `tokens` are not read.
  void score(const PackedTokens& tokens, const PermutationDraw& draw,
             std::span<const std::int64_t> rows, std::span<const std::int32_t> targets,
             std::span<float> losses, std::span<std::int32_t> most_likely);
  // Logits of the given rows, [rows, vocab_size] row-major on the host.
  void logits(const PackedTokens& tokens, const PermutationDraw& draw,
              std::span<const std::int64_t> rows, std::span<float> out);
  // Runs the layers and shows the gates of each gated one, from the first on.
  void visit_gates(const PackedTokens& tokens, const PermutationDraw& draw,
                   const GateVisitor& visit);

  // Runs the patterns over whole prompts and keeps their keys and values: sequence s goes into slot
  // slots[s] of the cache, whatever that held. out: logits of each prompt's last token, [S, V].
  void prefill(const PackedTokens& prompts, const PermutationDraw& draw,
               std::span<const std::int32_t> slots, std::span<float> out);
  // Appends tokens[i] to the sequence in slots[i]; slots differ. out: logits after each, [n, V].
  void decode(std::span<const std::int32_t> tokens, std::span<const std::int32_t> slots,
              DecodeAttention attention, std::span<float> out);

  // What the constructor allocates, without allocating it.
  static std::vector<MemoryLine> memory(const ModelConfig& config, const TransformerLimits& limits);
  // For sequences of this length.
  static ModelCost cost(const ModelConfig& config, std::int64_t sequence_length);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flywheel
