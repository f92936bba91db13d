#include "backend/memory_plan.h"

#include "core/philox.h"
#include "support/catch.h"

using namespace flywheel;

namespace {

bool overlap(const MemoryPlan::Buffer& a, const MemoryPlan::Buffer& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

TEST_CASE("buffers that never meet share memory", "[backend]") {
  MemoryPlan plan;
  const int logits = plan.add("logits", 1000, 1);
  const int scores = plan.add("scores", 600, 2);
  const int kept = plan.add("kept", 100);
  plan.place();
  REQUIRE(plan.buffer(logits).offset == plan.buffer(scores).offset);
  REQUIRE_FALSE(overlap(plan.buffer(kept), plan.buffer(logits)));
  REQUIRE(plan.bytes() == 1024 + 128);
}

TEST_CASE("buffers alive in one phase never overlap", "[backend]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomSequence random(seed, RandomStream::kCorpus);
    MemoryPlan plan;
    for (std::uint64_t i = 0; i < 20; ++i) {
      plan.add("x", static_cast<std::int64_t>(random.below(2 * i, 5000)),
               static_cast<MemoryPlan::Phases>(1 + random.below(2 * i + 1, 31)));
    }
    plan.place();
    for (const auto& a : plan.buffers()) {
      INFO("seed " << seed);
      REQUIRE(a.offset % 128 == 0);
      REQUIRE(a.offset + a.bytes <= plan.bytes());
      for (const auto& b : plan.buffers()) {
        REQUIRE((&a == &b || (a.phases & b.phases) == 0 || !overlap(a, b)));
      }
    }
  }
}
