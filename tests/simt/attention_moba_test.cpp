#include <cmath>
#include <cstdlib>

#include "cuda/cuda_backend.h"
#include "parity/attention_check.h"
#include "simt/attention_bf16.h"
#include "simt/attention_run.h"
#include "simt/schedules.h"
#include "support/attention_cases.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

void check_case(Backend& backend, const AttentionCase& c, std::uint64_t seed,
                const AttentionLayout& layout = {}) {
  INFO(c.describe());
  const auto in = random_attention_inputs(c, seed);
  check_attention(c, in, run_attention(backend, c, in, layout));
}

// Blocks from one key to more than a sequence; few places or more than there are blocks.
void check_random_case(Backend& backend, std::uint64_t seed) {
  AttentionCase c = random_attention_case(seed, 2e5);
  c.pattern = moba(1 + static_cast<std::int64_t>(seed * 7 % (seed % 3 == 0 ? 90 : 15)),
                   1 + static_cast<std::int64_t>(seed % 11));
  INFO("repeat with FLYWHEEL_CASE=" << seed);
  check_case(backend, c, seed, layout_of(seed));
}

}  // namespace

TEST_CASE("moba on the emulated GPU agrees with its definition in double", "[simt]") {
  const auto backend = make_cuda_backend(0);
  if (const char* seed = std::getenv("FLYWHEEL_CASE")) {
    check_random_case(*backend, std::strtoull(seed, nullptr, 10));
    return;
  }
  for (std::uint64_t seed = 0; seed < 60; ++seed) check_random_case(*backend, seed);
}

TEST_CASE("moba of many tiles, places and head sizes agrees with its definition", "[simt]") {
  const auto backend = make_cuda_backend(0);
  check_case(*backend, attention_case(moba(5, 3), {0, 400, 401, 430}, 8), 3);
  check_case(*backend, attention_case(moba(1, 71), {0, 200}, 8), 4);
  check_case(*backend, attention_case(moba(150, 2), {0, 400}, 8), 5);
  for (const std::int64_t head_size : {24, 64, 128, 136, 256}) {
    check_case(*backend, attention_case(moba(7, 3), {0, 60}, head_size), 6);
  }
}

TEST_CASE("of blocks that fit a query equally well, moba on the GPU sees the lower", "[simt]") {
  const auto backend = make_cuda_backend(0);
  for (const std::int64_t top_k : {2, 3, 40}) {
    const AttentionCase c = attention_case(moba(2, top_k), {0, 150});
    INFO(c.describe());
    const auto in = inputs_of_equal_blocks(c, 5);
    check_attention(c, in, run_attention(*backend, c, in));
  }
}

TEST_CASE("moba that sees all blocks gives the bits of full attention", "[simt]") {
  const auto backend = make_cuda_backend(0);
  const AttentionCase full = attention_case({}, {0, 130, 200}, 8);
  const auto in = random_attention_inputs(full, 6);
  const auto expected = run_attention(*backend, full, in);
  for (const AttentionPattern& pattern : {moba(130, 1), moba(40, 4), moba(1, 200)}) {
    AttentionCase c = full;
    c.pattern = pattern;
    INFO(c.describe());
    require_same_bits(run_attention(*backend, c, in), expected);
  }
}

TEST_CASE("moba's backward on the GPU adds to the gradients and turns them back if asked",
          "[simt]") {
  const auto backend = make_cuda_backend(0);
  for (const std::int64_t head_size : {8, 40, 64, 128, 256}) {
    for (const AttentionPattern& pattern : {moba(9, 1), moba(40, 2), moba(12, 3)}) {
      AttentionCase c = attention_case(pattern, {0, 31, 140}, head_size);
      c.heads = head_size > 64 ? 2 : 6;
      c.kv_heads = c.heads / 2;
      for (const auto& [rope, accumulate] :
           {std::pair{false, true}, std::pair{true, false}, std::pair{true, true}}) {
        c.rope = rope;
        c.accumulate = accumulate;
        check_case(*backend, c, 10);
      }
    }
  }
}

TEST_CASE("moba gives the same bits under any schedule", "[simt]") {
  const auto backend = make_cuda_backend(0);
  AttentionCase c = attention_case(moba(9, 4), {0, 150, 200}, 16);
  c.rope = c.accumulate = true;
  const auto in = random_attention_inputs(c, 7);
  const auto in_bf16 = random_bf16_inputs(c, 7);
  const auto expected = run_attention(*backend, c, in);
  const auto expected_bf16 = run_attention_bf16(c, in_bf16);
  for (const Schedule& schedule : unruly_schedules(10)) {
    const ScheduleScope scope(schedule);
    INFO(schedule.name());
    require_same_bits(run_attention(*backend, c, in), expected);
    require_same_bits(run_attention_bf16(c, in_bf16), expected_bf16);
  }
}

TEST_CASE("moba in bf16 agrees with its definition in double", "[simt]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    AttentionCase c = random_attention_case(seed, 1e5);
    c.pattern =
        moba(1 + static_cast<std::int64_t>(seed * 5 % 40), 1 + static_cast<std::int64_t>(seed % 4));
    INFO("seed " << seed << ": " << c.describe());
    const auto in = random_bf16_inputs(c, seed);
    check_attention_bf16(c, in, run_attention_bf16(c, in));
  }
}

TEST_CASE("moba in bf16 rounds what it computes in float32", "[simt]") {
  const auto backend = make_cuda_backend(0);
  const AttentionCase large = attention_case(moba(1, 160), {0, 220}, 8);  // a pass a key head
  for (AttentionCase c : {large, attention_case(moba(16, 3), {0, 220}, 64)}) {
    c.heads = 4;
    c.kv_heads = 2;
    INFO(c.describe());
    const auto in = random_bf16_inputs(c, 8);
    const auto expected = run_attention(*backend, c, in);
    const auto result = run_attention_bf16(c, in);
    for (std::size_t i = 0; i < result.out.size(); ++i) {
      REQUIRE(result.out[i] == Approx(expected.out[i]).epsilon(0x1p-8).margin(1e-6));
    }
    for (std::size_t i = 0; i < result.lse.size(); ++i) {
      REQUIRE(result.lse[i] == Approx(expected.lse[i]).epsilon(1e-6));
    }
    check_attention_bf16(c, in, result);
  }
}

TEST_CASE("moba that needs more scratch memory than there is says so", "[simt]") {
  const AttentionCase c = attention_case(moba(1, 500), {0, 600}, 8);
  const auto in = random_bf16_inputs(c, 9);
  CHECK(contains(error_of([&] { run_attention_bf16(c, in); }), "make the batch smaller"));
}
