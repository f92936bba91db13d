#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/model_config.h"

namespace flywheel {

// Where a tensor lies in the slab of parameters (and, alike, in that of gradients).
struct Slot {
  std::int64_t offset = -1;  // bytes; -1: the model has no such parameter
  Shape shape;
  DType dtype = DType::F32;

  TensorView in(std::byte* slab, DeviceKind device) const {
    return offset < 0 || slab == nullptr
               ? TensorView()
               : TensorView::of_weights(slab + offset, dtype, shape, device);
  }
  // The same elements of an F32 slab in a slab of BF16.
  Slot rounded() const { return {offset < 0 ? offset : offset / 2, shape, DType::BF16}; }
};

struct LinearSlot {
  Slot weight;  // [out, in], or [in, out] (the projections of GPT-2's family)
  Slot bias;    // [out]
  bool in_out = false;
};

struct NormSlot {
  Slot weight;  // [d]
  Slot bias;    // [d], LayerNorm
};

// Neighbours in the slab are one matrix here: q|k|v, gate|up, and the two gates of a gated layer.
struct LayerSlots {
  std::int64_t index = 0;
  NormSlot attention_norm;
  LinearSlot qkv;
  Slot q_norm;
  Slot k_norm;
  LinearSlot gates;
  LinearSlot attention_out;
  NormSlot mlp_norm;
  LinearSlot mlp_in;  // gate|up of SwiGLU
  LinearSlot mlp_out;
  // A mixture of experts in place of mlp_in and mlp_out.
  LinearSlot router;       // [E, d]
  LinearSlot experts_in;   // [E 2 f, d], gate|up of each expert
  LinearSlot experts_out;  // [E d, f]
};

struct ParameterSpec {
  std::string name;
  Slot slot;  // of the named part
  bool decay = false;
  float initial_value = 0;
  float initial_std = 0;     // of a normal distribution around initial_value
  bool is_matrix = false;    // in the type that matrices are kept in
  std::int64_t layer = -1;   // whose it is; -1: of no layer
  std::int64_t expert = -1;  // of the layer; -1: of none
};

// Every parameter's name, shape and place; a function of the config alone.
struct ParameterLayout {
  std::vector<ParameterSpec> specs;
  std::int64_t bytes = 0;  // of the slab
  // Where the buckets end, in bytes: embeddings; each layer; final norm and untied head.
  std::vector<std::int64_t> bucket_ends;

  Slot embedding;           // [Vp, d], Vp = the vocabulary padded to a multiple of 64; the rows
                            // beyond the vocabulary stay 0 and have no name
  Slot position_embedding;  // [P, d], learned positions
  std::vector<LayerSlots> layers;
  NormSlot final_norm;
  Slot head;  // [Vp, d], the embedding if tied
};

// `config` is valid. `matrices`: how the matrices are kept that products and the embedding read;
// all else is F32. Error Config if the matrices' sizes do not go with the type: all but F32 need
// rows of multiples of 32 elements.
ParameterLayout lay_out_parameters(const ModelConfig& config, DType matrices = DType::F32);

// Whether the matrices can be kept as Q8_0x16: each is [out, in] and has whole groups of
// rows of whole blocks.
bool can_interleave(const ModelConfig& config);

// Of the parameter's bf16 copy (RoundWeights): another sequence for each parameter.
std::uint64_t rounding_seed(std::uint64_t seed, const std::string& name);

std::int64_t padded_vocab_size(const ModelConfig& config);

// Fills one parameter: element i is a pure function of (seed, name, i).
void initialize_parameter(Backend& backend, const ParameterSpec& spec, const TensorView& value,
                          std::uint64_t seed);

}  // namespace flywheel
