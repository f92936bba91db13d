#include <cstdlib>

#include "parity/attention_run.h"
#include "support/attention_cases.h"
#include "support/catch.h"
#include "support/vector_targets.h"

using namespace flywheel;
using namespace flywheel::test;

TEST_CASE("attention agrees with the brute-force mask in double", "[attention]") {
  if (const char* seed = std::getenv("FLYWHEEL_CASE")) {
    for_each_target([&] { check_random_attention_case(std::strtoull(seed, nullptr, 10), 2e6); });
    return;
  }
  for_each_target([] {
    for (std::uint64_t seed = 0; seed < 120; ++seed) check_random_attention_case(seed, 2e6);
  });
}

TEST_CASE("every head size agrees with the brute-force mask", "[attention]") {
  for_each_target([] {
    for (std::int64_t head_size = 8; head_size <= 256; head_size += 8) {
      for (const AttentionPattern& pattern : attention_patterns(30)) {
        const AttentionCase c = attention_case(pattern, {0, 70}, head_size);
        INFO(c.describe());
        check_against_reference(c, random_attention_inputs(c, 3));
      }
    }
  });
}

TEST_CASE("long sequences agree with the brute-force mask", "[attention]") {
  for_each_target([] {
    for (const AttentionPattern& pattern : attention_patterns(256)) {
      AttentionCase c = attention_case(pattern, {0, 2113}, 8);
      c.heads = 1;
      INFO(c.describe());
      const auto in = random_attention_inputs(c, 4);
      check_against_reference(c, in);
      const auto expected = run_attention(c, in);
      AttentionRunOptions options;
      options.threads = 3;
      for (const Layout kv : {Layout::HeadMajor, Layout::TokenMajor, Layout::Padded}) {
        for (const Layout dkv : {Layout::HeadMajor, Layout::Padded}) {
          options.kv = kv;
          options.dkv = dkv;
          require_same_bits(run_attention(c, in, options), expected);
        }
      }
    }
  });
}

TEST_CASE("windows that hold the whole sequence give full attention", "[attention]") {
  for_each_target([] {
    for (const std::int64_t n : {1, 2, 63, 64, 65, 200}) {
      const auto length = static_cast<std::int32_t>(n);
      const AttentionCase full = attention_case({}, {0, length, 2 * length});
      const auto in = random_attention_inputs(full, 5);
      const auto expected = run_attention(full, in);
      for (const AttentionKind kind : {AttentionKind::Swa, AttentionKind::Sa}) {
        for (const std::int64_t window : {n, n + 1, 2 * n}) {
          AttentionCase c = full;
          c.pattern = {kind, window};
          INFO(c.describe());
          require_same_bits(run_attention(c, in), expected);
        }
      }
    }
  });
}

TEST_CASE("attention gives the same bits at any number of threads", "[attention]") {
  for_each_target([] {
    for (const AttentionPattern& pattern : attention_patterns(100)) {
      AttentionCase c = attention_case(pattern, {0, 300, 301, 1000, 1130});
      c.rope = true;
      INFO(c.describe());
      const auto in = random_attention_inputs(c, 6);
      AttentionRunOptions options;
      const auto expected = run_attention(c, in, options);
      for (const int threads : {2, 3, 8}) {
        options.threads = threads;
        require_same_bits(run_attention(c, in, options), expected);
      }
    }
  });
}

TEST_CASE("backward adds to the gradients and turns them back if asked", "[attention]") {
  for_each_target([] {
    for (const AttentionPattern& pattern : attention_patterns(60)) {
      for (const std::int64_t head_size : {24, 64, 128}) {
        AttentionCase c = attention_case(pattern, {0, 20, 213}, head_size);
        for (const Layout kv : {Layout::HeadMajor, Layout::Padded}) {
          for (const auto& [rope, accumulate] :
               {std::pair{false, true}, std::pair{true, false}, std::pair{true, true}}) {
            c.rope = rope;
            c.accumulate = accumulate;
            INFO(c.describe());
            check_against_reference(c, random_attention_inputs(c, 7),
                                    {.q = kv, .kv = kv, .dkv = Layout::Padded});
          }
        }
      }
    }
  });
}

TEST_CASE("a sequence's results do not depend on its neighbours", "[attention]") {
  for_each_target([] {
    for (const AttentionPattern& pattern : attention_patterns(40)) {
      const AttentionCase alone = attention_case(pattern, {0, 150});
      const auto in = random_attention_inputs(alone, 8);
      const auto expected = run_attention(alone, in);
      const AttentionCase batch = attention_case(pattern, {0, 30, 180, 255});
      auto batch_in = random_attention_inputs(batch, 9);
      const std::int64_t q_row = alone.heads * alone.head_size;
      const std::int64_t kv_row = alone.kv_heads * alone.head_size;
      std::copy(in.q.begin(), in.q.end(), batch_in.q.begin() + 30 * q_row);
      std::copy(in.dout.begin(), in.dout.end(), batch_in.dout.begin() + 30 * q_row);
      std::copy(in.k.begin(), in.k.end(), batch_in.k.begin() + 30 * kv_row);
      std::copy(in.v.begin(), in.v.end(), batch_in.v.begin() + 30 * kv_row);
      const auto result = run_attention(batch, batch_in);
      INFO(batch.describe());
      REQUIRE(
          std::equal(expected.out.begin(), expected.out.end(), result.out.begin() + 30 * q_row));
      REQUIRE(std::equal(expected.dq.begin(), expected.dq.end(), result.dq.begin() + 30 * q_row));
      REQUIRE(std::equal(expected.dk.begin(), expected.dk.end(), result.dk.begin() + 30 * kv_row));
      REQUIRE(std::equal(expected.dv.begin(), expected.dv.end(), result.dv.begin() + 30 * kv_row));
    }
  });
}
