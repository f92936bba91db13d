#pragma once

#include "support/attention_reference.h"

namespace flywheel::test {

// Two query heads that share a key head.
AttentionCase attention_case(const AttentionPattern& pattern, std::vector<std::int32_t> cu_seqlens,
                             std::int64_t head_size = 16);

// One of each kind: full, swa, sa, sa with a trailing band, sa with a clipped one of twice the
// budget.
std::vector<AttentionPattern> attention_patterns(std::int64_t window);

void require_same_bits(const AttentionTensors<float>& a, const AttentionTensors<float>& b);

}  // namespace flywheel::test
