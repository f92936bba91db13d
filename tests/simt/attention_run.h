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
  bool accumulate = false;   // on top of what dq, dk, dv hold
};

// Forward and backward through the seam.
AttentionTensors<float> run_attention(Backend& backend, const AttentionCase& c,
                                      const AttentionTensors<float>& in,
                                      const AttentionLayout& layout = {});

void require_same_bits(const AttentionTensors<float>& a, const AttentionTensors<float>& b);

AttentionCase attention_case(const AttentionPattern& pattern, std::vector<std::int32_t> cu_seqlens,
                             std::int64_t head_size);

// One of each kind: full, swa, sa, sa with a trailing band, sa with a clipped one of twice the
// budget.
std::vector<AttentionPattern> attention_patterns(std::int64_t window);

}  // namespace flywheel::test
