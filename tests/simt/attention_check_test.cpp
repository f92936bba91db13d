#include "parity/attention_check.h"
#include "cuda/cuda_backend.h"
#include "simt/attention_bf16.h"
#include "simt/attention_run.h"
#include "simt/check/conflicts.h"
#include "simt/schedules.h"
#include "support/attention_cases.h"
#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

TEST_CASE("attention neither races nor reads what was never written", "[simt]") {
  const auto backend = make_cuda_backend(0);
  std::uint64_t seed = 0;
  for (const AttentionPattern& pattern : attention_patterns(60)) {
    for (const std::int64_t head_size : {8, 40}) {
      if (head_size != 8 && pattern.kind != AttentionKind::Full) continue;
      const ScheduleScope scope({simt::Order::kSkew, simt::Landing::kMixed, ++seed});
      AttentionCase c = attention_case(pattern, {0, 150, 170}, head_size);
      c.rope = c.accumulate = seed % 2 == 0;
      INFO(c.describe());
      const auto in = random_attention_inputs(c, seed);
      check_attention(c, in, run_attention(*backend, c, in));
    }
  }
}

TEST_CASE("attention on tensor cores neither races nor reads what was never written", "[simt]") {
  std::uint64_t seed = 0;
  for (const AttentionPattern& pattern : attention_patterns(60)) {
    const ScheduleScope scope({simt::Order::kSkew, simt::Landing::kMixed, ++seed});
    AttentionCase c = attention_case(pattern, {0, 131, 150}, seed % 2 == 0 ? 64 : 128);
    c.rope = c.accumulate = seed > 1;
    INFO(c.describe());
    const auto in = random_bf16_inputs(c, seed);
    check_attention_bf16(c, in, run_attention_bf16(c, in));
  }
}

TEST_CASE("moba neither races nor reads what was never written", "[simt]") {
  const auto backend = make_cuda_backend(0);
  std::uint64_t seed = 0;
  for (const std::int64_t top_k : {1, 3, 40}) {
    const ScheduleScope scope({simt::Order::kSkew, simt::Landing::kMixed, ++seed});
    AttentionCase c = attention_case(moba(2, top_k), {0, 140, 150}, 8);
    c.rope = c.accumulate = seed != 2;
    INFO(c.describe());
    const auto in = random_attention_inputs(c, seed);
    check_attention(c, in, run_attention(*backend, c, in));
  }
}

TEST_CASE("attention has no bank conflicts", "[simt]") {
  simt::config.count_conflicts = true;
  const auto backend = make_cuda_backend(0);
  for (const std::int64_t head_size : {64, 128}) {
    AttentionCase c = attention_case({AttentionKind::Sa, 20}, {0, 40}, head_size);
    c.rope = c.accumulate = true;
    run_attention(*backend, c, random_attention_inputs(c, 1));
    run_attention_bf16(c, random_bf16_inputs(c, 1));
    c.pattern = moba(8, 2);
    run_attention(*backend, c, random_attention_inputs(c, 1));
  }
  const std::vector<simt::LineCost> lines = simt::conflict_counter().take();
  std::uint64_t total = 0;
  for (const simt::LineCost& line : lines) total += line.shared ? line.cost : 0;
  for (const simt::LineCost& line : lines) {
    if (!line.shared || line.cost * 100 < total) continue;  // too rare to matter
    CAPTURE(line.line, line.requests, line.cost, line.ideal);
    CHECK(line.cost <= 2 * line.ideal);
  }
  simt::config = {};
}
