#pragma once

#include <cstdint>

#include "support/attention_reference.h"

namespace flywheel::test {

// Where the elements of a [T, heads, D] tensor lie.
enum class Layout { TokenMajor, HeadMajor, Padded };

struct AttentionRunOptions {
  int threads = 1;
  Layout q = Layout::HeadMajor;
  Layout kv = Layout::HeadMajor;
  Layout dkv = Layout::HeadMajor;
  Layout out = Layout::TokenMajor;
};

// Forward and backward of the CPU kernels.
AttentionTensors<float> run_attention(const AttentionCase& c, const AttentionTensors<float>& in,
                                      const AttentionRunOptions& options = {});

// Requires that no error against the double reference is above twice that of the naive float loops,
// plus rounding.
void check_against_reference(const AttentionCase& c, const AttentionTensors<float>& in,
                             const AttentionRunOptions& options = {});

// Layouts and threads by the seed.
AttentionRunOptions run_options_of(std::uint64_t seed);

// A random case of random_attention_case(), with these options.
void check_random_attention_case(std::uint64_t seed, double work);

}  // namespace flywheel::test
