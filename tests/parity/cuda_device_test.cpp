// The table of cases and attention on the GPU of this machine, where there is one.
#include <cstdio>

#include "core/error.h"
#include "cuda/cuda_backend.h"
#include "parity/attention_check.h"
#include "parity/op_case.h"
#include "simt/attention_bf16.h"
#include "simt/attention_run.h"
#include "support/attention_cases.h"
#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

std::unique_ptr<Backend> gpu() {
  try {
    return make_cuda_backend(0);
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return nullptr;
  }
}

void check_cases(Backend& backend, const std::vector<OpCase>& cases) {
  for (const OpCase& op_case : cases) {
    CAPTURE(op_case.name);
    const Outputs first = run_on(backend, op_case);
    const Comparison worst = compare(op_case, first);
    CAPTURE(worst.output, worst.error, worst.tolerance);
    CHECK(worst.passed());
    CHECK(same_bits(first, run_on(backend, op_case)));
  }
}

}  // namespace

TEST_CASE("every op on the GPU is as exact as a naive float loop and repeats its bits", "[gpu]") {
  const auto backend = gpu();
  if (!backend) return;
  std::printf("%s\n", backend->description().c_str());
  check_cases(*backend, all_op_cases());
}

TEST_CASE("every op in bf16 on the GPU is as exact as a naive loop that rounds", "[gpu]") {
  if (const auto backend = gpu()) check_cases(*backend, bf16_op_cases());
}

TEST_CASE("attention on the GPU agrees with the brute-force mask", "[gpu][attention]") {
  const auto backend = gpu();
  if (!backend) return;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const AttentionCase c = random_attention_case(seed, 2e5);
    INFO("seed " << seed << ": " << c.describe());
    const auto in = random_attention_inputs(c, seed);
    check_attention(c, in, run_attention(*backend, c, in));
  }
}

TEST_CASE("moba on the GPU agrees with its definition and repeats its bits", "[gpu][attention]") {
  const auto backend = gpu();
  if (!backend) return;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    AttentionCase c = random_attention_case(seed, 2e5);
    c.pattern =
        moba(1 + static_cast<std::int64_t>(seed * 7 % 50), 1 + static_cast<std::int64_t>(seed % 4));
    INFO("seed " << seed << ": " << c.describe());
    const auto in = random_attention_inputs(c, seed);
    const auto result = run_attention(*backend, c, in);
    check_attention(c, in, result);
    require_same_bits(run_attention(*backend, c, in), result);
    const auto in_bf16 = random_bf16_inputs(c, seed);
    check_attention_bf16(c, in_bf16, run_attention_bf16(c, in_bf16));
  }
}

TEST_CASE("attention on tensor cores agrees with the brute-force mask", "[gpu][attention]") {
  if (!gpu()) return;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    AttentionCase c = random_attention_case(seed, 2e5);
    c.head_size = seed % 2 == 0 ? 64 : 128;
    INFO("seed " << seed << ": " << c.describe());
    const auto in = random_bf16_inputs(c, seed);
    check_attention_bf16(c, in, run_attention_bf16(c, in));
  }
}
