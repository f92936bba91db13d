#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "support/tape.h"

namespace flywheel::test {

// A batch, its permutations, and what is differentiated: loss_scale * (sum of losses + z_loss * sum
// of logsumexp^2 over the counted rows).
struct TwinInput {
  std::vector<std::int32_t> inputs, targets, positions, cu_seqlens;
  std::uint32_t first_sequence = 0;
  PermutationDraw draw;
  double loss_scale = 1;
  double z_loss = 0;
  // How many tokens of each sequence are its prompt, which the patterns run over; the others are
  // decoded. Empty: all are prompt.
  std::vector<std::int32_t> prompt_lengths;
  DecodeAttention decode_attention = DecodeAttention::Full;

  PackedTokens packed() const { return {inputs, targets, positions, cu_seqlens, first_sequence}; }
};

template <class Scalar>
using NamedValues = std::map<std::string, std::vector<Scalar>>;

template <class Scalar>
struct TwinOutput {
  std::vector<Scalar> logits;  // [T, V]
  std::vector<Scalar> losses;  // [T]
  Scalar objective{};
};

// The whole model in plain loops, from the parameters by their Hugging Face names and shapes. In
// double it is the reference of the model; in float, the yardstick of its error; with Traced
// numbers it gives gradients.
template <class Scalar>
TwinOutput<Scalar> run_twin(const ModelConfig& config, const NamedValues<Scalar>& parameters,
                            const TwinInput& input);

// The objective's derivative with respect to every parameter.
template <class Real>
NamedValues<Real> twin_gradients(const ModelConfig& config, const NamedValues<Real>& parameters,
                                 const TwinInput& input);

// Sequences of these lengths with random tokens; some targets are -1.
TwinInput random_twin_input(const ModelConfig& config, const std::vector<std::int32_t>& lengths,
                            std::uint64_t seed);

extern template TwinOutput<float> run_twin(const ModelConfig&, const NamedValues<float>&,
                                           const TwinInput&);
extern template TwinOutput<double> run_twin(const ModelConfig&, const NamedValues<double>&,
                                            const TwinInput&);
extern template NamedValues<float> twin_gradients(const ModelConfig&, const NamedValues<float>&,
                                                  const TwinInput&);
extern template NamedValues<double> twin_gradients(const ModelConfig&, const NamedValues<double>&,
                                                   const TwinInput&);

}  // namespace flywheel::test
