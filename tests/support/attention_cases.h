#pragma once

#include "support/attention_reference.h"

namespace flywheel::test {

// Two query heads that share a key head.
AttentionCase attention_case(const AttentionPattern& pattern, std::vector<std::int32_t> cu_seqlens,
                             std::int64_t head_size = 16);

// One of each kind: full, swa, sa, sa with a trailing band, sa with a clipped one of twice the
// budget.
std::vector<AttentionPattern> attention_patterns(std::int64_t window);

AttentionPattern moba(std::int64_t block, std::int64_t top_k);
// Blocks whose mean keys are exact, and equal for many of them: k is 0 or 1 in the first channel
// and 0 elsewhere, q whole numbers.
AttentionTensors<float> inputs_of_equal_blocks(const AttentionCase& c, std::uint64_t seed);

void require_same_bits(const AttentionTensors<float>& a, const AttentionTensors<float>& b);

}  // namespace flywheel::test
