#include <cstdlib>

#include "cuda/cuda_backend.h"
#include "parity/attention_check.h"
#include "simt/attention_run.h"
#include "simt/schedules.h"
#include "support/attention_cases.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

void check_random_case(Backend& backend, std::uint64_t seed) {
  const AttentionCase c = random_attention_case(seed, 2e5);
  INFO("repeat with FLYWHEEL_CASE=" << seed << ": " << c.describe());
  const auto in = random_attention_inputs(c, seed);
  check_attention(c, in, run_attention(backend, c, in, layout_of(seed)));
}

}  // namespace

TEST_CASE("attention on the emulated GPU agrees with the brute-force mask", "[simt]") {
  const auto backend = make_cuda_backend(0);
  if (const char* seed = std::getenv("FLYWHEEL_CASE")) {
    check_random_case(*backend, std::strtoull(seed, nullptr, 10));
    return;
  }
  for (std::uint64_t seed = 0; seed < 60; ++seed) check_random_case(*backend, seed);
}

TEST_CASE("attention of several tiles agrees with the brute-force mask", "[simt]") {
  const auto backend = make_cuda_backend(0);
  for (const std::int64_t window : {40, 200}) {
    for (const AttentionPattern& pattern : attention_patterns(window)) {
      const AttentionCase c = attention_case(pattern, {0, 515, 600}, 8);
      INFO(c.describe());
      const auto in = random_attention_inputs(c, 3);
      check_attention(c, in, run_attention(*backend, c, in));
    }
  }
}

TEST_CASE("attention of every class of head size agrees with the brute-force mask", "[simt]") {
  const auto backend = make_cuda_backend(0);
  for (const std::int64_t head_size : {8, 24, 64, 72, 128, 136, 256}) {
    const AttentionCase c = attention_case({AttentionKind::Sa, 30}, {0, 70, 131}, head_size);
    INFO(c.describe());
    const auto in = random_attention_inputs(c, 4);
    check_attention(c, in, run_attention(*backend, c, in));
  }
  const AttentionCase c = attention_case({}, {0, 3}, 12);
  CHECK(contains(
      error_of([&] { run_attention(*backend, c, random_attention_inputs(c, 1)); }),
      "shape: attention: the head size is 12; the CUDA backend takes multiples of 8 up to 256"));
}

TEST_CASE("attention gives the same bits under any schedule", "[simt]") {
  const auto backend = make_cuda_backend(0);
  for (const AttentionPattern& pattern : attention_patterns(60)) {
    AttentionCase c = attention_case(pattern, {0, 150, 250}, 16);
    c.rope = c.accumulate = true;
    INFO(c.describe());
    const auto in = random_attention_inputs(c, 5);
    const auto expected = run_attention(*backend, c, in);
    for (const Schedule& schedule : unruly_schedules(10)) {
      const ScheduleScope scope(schedule);
      INFO(schedule.name());
      require_same_bits(run_attention(*backend, c, in), expected);
    }
  }
}

TEST_CASE("windows that hold the whole sequence give the bits of full attention", "[simt]") {
  const auto backend = make_cuda_backend(0);
  const AttentionCase full = attention_case({}, {0, 130, 200}, 8);
  const auto in = random_attention_inputs(full, 6);
  const auto expected = run_attention(*backend, full, in);
  for (const AttentionKind kind : {AttentionKind::Swa, AttentionKind::Sa}) {
    AttentionCase c = full;
    c.pattern = {kind, 130};
    INFO(c.describe());
    require_same_bits(run_attention(*backend, c, in), expected);
  }
}

TEST_CASE("attention's backward adds to the gradients and turns them back if asked", "[simt]") {
  const auto backend = make_cuda_backend(0);
  for (const std::int64_t head_size : {8, 24, 40, 64, 128, 256}) {
    AttentionCase c = attention_case({AttentionKind::Sa, 60}, {0, 31, 200}, head_size);
    for (const auto& [rope, accumulate] :
         {std::pair{false, true}, std::pair{true, false}, std::pair{true, true}}) {
      c.rope = rope;
      c.accumulate = accumulate;
      INFO(c.describe());
      const auto in = random_attention_inputs(c, 7);
      check_attention(c, in, run_attention(*backend, c, in));
    }
  }
}
