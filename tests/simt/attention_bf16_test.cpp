// The kernels of attention on bf16 tensors: head sizes 64 and 128 on tensor cores, others plain.
#include <cstdlib>

#include "simt/attention_bf16.h"
#include "simt/attention_run.h"
#include "simt/schedules.h"
#include "support/attention_cases.h"
#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

void check_case(const AttentionCase& c, std::uint64_t seed) {
  INFO(c.describe());
  const auto in = random_bf16_inputs(c, seed);
  check_attention_bf16(c, in, run_attention_bf16(c, in));
}

void check_random_case(std::uint64_t seed) {
  AttentionCase c = random_attention_case(seed, 2e5);
  c.head_size = seed % 2 == 0 ? 64 : 128;
  INFO("repeat with FLYWHEEL_CASE=" << seed);
  check_case(c, seed);
}

}  // namespace

TEST_CASE("attention on tensor cores agrees with the brute-force mask", "[simt]") {
  if (const char* seed = std::getenv("FLYWHEEL_CASE")) {
    check_random_case(std::strtoull(seed, nullptr, 10));
    return;
  }
  for (std::uint64_t seed = 0; seed < 40; ++seed) check_random_case(seed);
}

TEST_CASE("attention of several tiles on tensor cores agrees with the brute-force mask", "[simt]") {
  for (const std::int64_t window : {40, 200}) {
    for (const AttentionPattern& pattern : attention_patterns(window)) {
      AttentionCase c = attention_case(pattern, {0, 300, 331}, 64);
      check_case(c, 3);
    }
  }
  for (const AttentionPattern& pattern : attention_patterns(100)) {
    check_case(attention_case(pattern, {0, 200}, 128), 4);
  }
}

TEST_CASE("attention of bf16 rows without tensor cores is right to rounding", "[simt]") {
  for (const std::int64_t head_size : {8, 40, 96, 256}) {
    check_case(attention_case({AttentionKind::Sa, 30}, {0, 70, 131}, head_size), 5);
  }
}

TEST_CASE("attention on tensor cores gives the same bits under any schedule", "[simt]") {
  for (const std::int64_t head_size : {64, 128}) {
    AttentionCase c = attention_case({AttentionKind::Sa, 60}, {0, 140, 150}, head_size);
    c.rope = c.accumulate = true;
    INFO(c.describe());
    const auto in = random_bf16_inputs(c, 5);
    const auto expected = run_attention_bf16(c, in);
    for (const Schedule& schedule : unruly_schedules(9)) {
      const ScheduleScope scope(schedule);
      INFO(schedule.name());
      require_same_bits(run_attention_bf16(c, in), expected);
    }
  }
}

TEST_CASE("attention's backward in bf16 adds to the gradients and turns them back if asked",
          "[simt]") {
  for (const std::int64_t head_size : {24, 40, 64, 128}) {
    AttentionCase c = attention_case({AttentionKind::Sa, 60}, {0, 31, 180}, head_size);
    for (const auto& [rope, accumulate] :
         {std::pair{false, true}, std::pair{true, false}, std::pair{true, true}}) {
      c.rope = rope;
      c.accumulate = accumulate;
      check_case(c, 7);
    }
  }
}
