#include "support/attention_cases.h"

#include <cmath>

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

AttentionPattern moba(std::int64_t block, std::int64_t top_k) {
  return {.kind = AttentionKind::Moba, .block = block, .top_k = top_k};
}

AttentionTensors<float> inputs_of_equal_blocks(const AttentionCase& c, std::uint64_t seed) {
  AttentionTensors<float> in = random_attention_inputs(c, seed);
  for (float& x : in.q) x = std::round(x);
  const auto row = static_cast<std::size_t>(c.kv_heads * c.head_size);
  for (std::size_t i = 0; i < in.k.size(); ++i) {
    in.k[i] = i % row == 0 && (i / row) % 3 == 0 ? 1.0F : 0.0F;
  }
  return in;
}

void require_same_bits(const AttentionTensors<float>& a, const AttentionTensors<float>& b) {
  REQUIRE(a.out == b.out);
  REQUIRE(a.lse == b.lse);
  REQUIRE(a.dq == b.dq);
  REQUIRE(a.dk == b.dk);
  REQUIRE(a.dv == b.dv);
}

}  // namespace flywheel::test
