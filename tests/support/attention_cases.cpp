#include "support/attention_cases.h"

#include "support/catch.h"

namespace flywheel::test {

AttentionCase attention_case(const AttentionPattern& pattern, std::vector<std::int32_t> cu_seqlens,
                             std::int64_t head_size) {
  AttentionCase c;
  c.pattern = pattern;
  c.key = {5, RandomStream::kEvaluationPermutation, 1, 0};
  c.cu_seqlens = std::move(cu_seqlens);
  c.heads = 2;
  c.kv_heads = 1;
  c.head_size = head_size;
  return c;
}

std::vector<AttentionPattern> attention_patterns(std::int64_t window) {
  const AttentionPattern swa{AttentionKind::Swa, window};
  const AttentionPattern sa{AttentionKind::Sa, window};
  AttentionPattern trailing = sa;
  trailing.band = Band::Trailing;
  AttentionPattern clipped = sa;
  clipped.circular = false;
  clipped.budget = Budget::Matched;
  return {AttentionPattern{}, swa, sa, trailing, clipped};
}

void require_same_bits(const AttentionTensors<float>& a, const AttentionTensors<float>& b) {
  REQUIRE(a.out == b.out);
  REQUIRE(a.lse == b.lse);
  REQUIRE(a.dq == b.dq);
  REQUIRE(a.dk == b.dk);
  REQUIRE(a.dv == b.dv);
}

}  // namespace flywheel::test
