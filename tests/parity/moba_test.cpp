#include <cstdlib>

#include "attention/counts.h"
#include "core/error.h"
#include "cpu/attention.h"
#include "parity/attention_run.h"
#include "support/attention_cases.h"
#include "support/catch.h"
#include "support/vector_targets.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

// Blocks from one key to more than a sequence; few places or more than there are blocks.
void check_random_case(std::uint64_t seed) {
  AttentionCase c = random_attention_case(seed, 2e6);
  const RandomSequence random(seed, RandomStream::kInitialization, 98);
  const std::uint64_t widest = random.below(0, 2) == 0 ? 20 : 150;
  c.pattern =
      moba(1 + static_cast<std::int64_t>(random.below(1, widest)),
           1 + static_cast<std::int64_t>(random.below(2, random.below(3, 2) == 0 ? 3 : 12)));
  INFO("repeat with FLYWHEEL_CASE=" << seed << ": " << c.describe());
  check_against_reference(c, random_attention_inputs(c, seed), run_options_of(seed));
}

std::int64_t counted_pairs(const AttentionCase& c, const AttentionTensors<float>& x) {
  std::int64_t pairs = 0;
  for (std::size_t s = 0; s + 1 < c.cu_seqlens.size(); ++s) {
    const std::int64_t begin = c.cu_seqlens[s];
    for (std::int64_t i = 0; begin + i < c.cu_seqlens[s + 1]; ++i) {
      for (const std::int64_t b : choose_blocks(c, x, begin, i, 0).blocks) {
        pairs += std::min((b + 1) * c.pattern.block, i + 1) - b * c.pattern.block;
      }
    }
  }
  return pairs;
}

}  // namespace

TEST_CASE("moba agrees with its definition in double", "[moba]") {
  if (const char* seed = std::getenv("FLYWHEEL_CASE")) {
    for_each_target([&] { check_random_case(std::strtoull(seed, nullptr, 10)); });
    return;
  }
  for_each_target([] {
    for (std::uint64_t seed = 0; seed < 150; ++seed) check_random_case(seed);
  });
}

TEST_CASE("moba agrees with its definition at every head size and at length", "[moba]") {
  for_each_target([] {
    for (std::int64_t head_size = 8; head_size <= 256; head_size += 8) {
      const AttentionCase c = attention_case(moba(11, 3), {0, 100}, head_size);
      INFO(c.describe());
      check_against_reference(c, random_attention_inputs(c, 3));
    }
    for (const AttentionPattern& pattern : {moba(16, 4), moba(100, 3), moba(513, 2)}) {
      const AttentionCase c = attention_case(pattern, {0, 1601}, 8);
      INFO(c.describe());
      check_against_reference(c, random_attention_inputs(c, 4));
    }
  });
}

TEST_CASE("of blocks that fit a query equally well, moba sees the lower", "[moba]") {
  for_each_target([] {
    for (const std::int64_t top_k : {2, 3, 5}) {
      const AttentionCase c = attention_case(moba(4, top_k), {0, 150});
      INFO(c.describe());
      const auto in = inputs_of_equal_blocks(c, 5);
      check_against_reference(c, in);
    }
  });
}

TEST_CASE("moba that sees all blocks is full attention", "[moba]") {
  for_each_target([] {
    for (const std::int32_t n : {1, 64, 65, 200}) {
      const AttentionCase full = attention_case({}, {0, n, 2 * n});
      const auto in = random_attention_inputs(full, 6);
      const auto expected = run_attention(full, in);
      for (const AttentionPattern& pattern : {moba(n, 1), moba((n + 2) / 3, 3), moba(1, n)}) {
        AttentionCase c = full;
        c.pattern = pattern;
        INFO(c.describe());
        require_same_bits(run_attention(c, in), expected);
      }
    }
  });
}

TEST_CASE("moba gives the same bits whatever the threads and the neighbours", "[moba]") {
  for_each_target([] {
    for (const AttentionPattern& pattern : {moba(8, 2), moba(50, 3), moba(70, 1)}) {
      const AttentionCase alone = attention_case(pattern, {0, 700});
      INFO(alone.describe());
      const auto in = random_attention_inputs(alone, 7);
      const auto expected = run_attention(alone, in);
      for (const int threads : {2, 5}) {
        AttentionRunOptions options;
        options.threads = threads;
        require_same_bits(run_attention(alone, in, options), expected);
      }
      const AttentionCase batch = attention_case(pattern, {0, 30, 730, 790});
      auto batch_in = random_attention_inputs(batch, 8);
      const std::int64_t q_row = alone.heads * alone.head_size;
      const std::int64_t kv_row = alone.kv_heads * alone.head_size;
      std::copy(in.q.begin(), in.q.end(), batch_in.q.begin() + 30 * q_row);
      std::copy(in.dout.begin(), in.dout.end(), batch_in.dout.begin() + 30 * q_row);
      std::copy(in.k.begin(), in.k.end(), batch_in.k.begin() + 30 * kv_row);
      std::copy(in.v.begin(), in.v.end(), batch_in.v.begin() + 30 * kv_row);
      const auto result = run_attention(batch, batch_in);
      const auto same = [](const std::vector<float>& x, const std::vector<float>& whole,
                           std::int64_t row) {
        return std::equal(x.begin(), x.end(), whole.begin() + 30 * row);
      };
      REQUIRE(same(expected.out, result.out, q_row));
      REQUIRE(same(expected.dq, result.dq, q_row));
      REQUIRE(same(expected.dk, result.dk, kv_row));
      REQUIRE(same(expected.dv, result.dv, kv_row));
    }
  });
}

TEST_CASE("moba gives the same bits wherever its tensors lie", "[moba]") {
  for_each_target([] {
    for (const AttentionPattern& pattern : {moba(8, 2), moba(50, 3), moba(70, 1)}) {
      AttentionCase c = attention_case(pattern, {0, 700});
      c.heads = 1;
      INFO(c.describe());
      const auto in = random_attention_inputs(c, 12);
      const auto expected = run_attention(c, in);
      for (const Layout kv : {Layout::HeadMajor, Layout::TokenMajor, Layout::Padded}) {
        require_same_bits(run_attention(c, in, {.threads = 2, .kv = kv}), expected);
      }
    }
  });
}

TEST_CASE("moba's backward adds to the gradients and turns them back if asked", "[moba]") {
  for_each_target([] {
    for (const AttentionPattern& pattern : {moba(30, 1), moba(9, 3), moba(80, 2)}) {
      for (const std::int64_t head_size : {16, 24, 64, 128}) {
        AttentionCase c = attention_case(pattern, {0, 70, 333}, head_size);
        c.heads = 6;
        c.kv_heads = 2;
        for (const Layout kv : {Layout::HeadMajor, Layout::Padded}) {
          for (const auto& [rope, accumulate] :
               {std::pair{false, true}, std::pair{true, false}, std::pair{true, true}}) {
            c.rope = rope;
            c.accumulate = accumulate;
            INFO(c.describe());
            check_against_reference(c, random_attention_inputs(c, 11), {.q = kv, .kv = kv});
          }
        }
      }
    }
  });
}

TEST_CASE("no token of moba sees a later one", "[moba]") {
  const AttentionCase c = attention_case(moba(16, 3), {0, 200});
  const auto in = random_attention_inputs(c, 9);
  const auto before = run_attention(c, in);
  const std::int64_t row = c.heads * c.head_size;
  for (const std::int64_t changed : {1, 15, 16, 100, 199}) {
    auto other = in;
    for (std::int64_t d = 0; d < c.head_size; ++d) {
      other.k[static_cast<std::size_t>(changed * c.head_size + d)] += 9;
      other.v[static_cast<std::size_t>(changed * c.head_size + d)] += 9;
    }
    const auto after = run_attention(c, other);
    REQUIRE(std::equal(before.out.begin(), before.out.begin() + changed * row, after.out.begin()));
    REQUIRE(!std::equal(before.out.begin(), before.out.begin() + (changed + 1) * row,
                        after.out.begin()));
  }
}

TEST_CASE("moba's visible keys are counted exactly", "[moba]") {
  for (const AttentionPattern& pattern : {moba(1, 2), moba(7, 1), moba(7, 3), moba(64, 4)}) {
    const AttentionCase c = attention_case(pattern, {0, 1, 90, 400});
    INFO(c.describe());
    AttentionPlan plan(pattern, cpu::kAttentionTile, c.tokens(), 3);
    plan.prepare(c.cu_seqlens, c.key);
    const std::int64_t pairs = counted_pairs(c, random_attention_inputs(c, 10));
    REQUIRE(visible_pairs(plan) == pairs);
    const double mean = mean_visible_keys(pattern, 1) * 1 + mean_visible_keys(pattern, 89) * 89 +
                        mean_visible_keys(pattern, 310) * 310;
    REQUIRE(mean == Approx(static_cast<double>(pairs)));
  }
  // One earlier block of 32 keys and on average half of the own one.
  REQUIRE(mean_visible_keys(moba(32, 2), 1 << 20) == Approx(32 + 16.5).epsilon(1e-4));
}

TEST_CASE("plans of moba need a key and a block", "[moba]") {
  REQUIRE_THROWS_AS(AttentionPlan(moba(0, 2), 64, 10, 1), Error);
  REQUIRE_THROWS_AS(AttentionPlan(moba(8, 0), 64, 10, 1), Error);
}
