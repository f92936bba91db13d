#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "support/attention_reference.h"

namespace flywheel::test {

// How an attention call lays out its tensors.
struct AttentionLayout {
  bool heads_first = false;  // of q, k, v and their gradients
  std::int64_t gap = 0;      // elements between tokens that nobody may touch
};

// One of many, for cases drawn by a seed.
AttentionLayout layout_of(std::uint64_t seed);

// Forward and backward through the seam.
AttentionTensors<float> run_attention(Backend& backend, const AttentionCase& c,
                                      const AttentionTensors<float>& in,
                                      const AttentionLayout& layout = {});

}  // namespace flywheel::test
