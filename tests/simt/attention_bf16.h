#pragma once

#include "cuda/memory.h"
#include "support/attention_reference.h"

namespace flywheel::test {

// Standard normal inputs that bf16 holds.
AttentionTensors<float> random_bf16_inputs(const AttentionCase& c, std::uint64_t seed);

// Forward and backward of the kernels on bf16 tensors.
AttentionTensors<float> run_attention_bf16(const AttentionCase& c,
                                           const AttentionTensors<float>& in);

// Requires that no error of `result` against the double reference is above twice that of naive
// loops which round to bf16 where the kernels do: weights and gradients of scores before their
// products, and results.
void check_attention_bf16(const AttentionCase& c, const AttentionTensors<float>& in,
                          AttentionTensors<float> result);

}  // namespace flywheel::test
