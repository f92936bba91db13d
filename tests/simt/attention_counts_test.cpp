#include "cuda/attention_plans.h"
#include "support/catch.h"

using namespace flywheel;

namespace {

// Per query, in keys.
struct Columns {
  double visited, executed, visible, unmasked;
};

Columns count_columns(const AttentionPattern& pattern, std::int64_t n) {
  const auto length = static_cast<std::int32_t>(n);
  AttentionPlan plan(pattern, cuda::kAttentionTile, n, 1);
  plan.prepare(std::vector<std::int32_t>{0, length}, {3, RandomStream::kTrainingPermutation, 1, 0});
  const cuda::BlockCounts counts = cuda::count_blocks(plan);
  const double scale = 256.0 / static_cast<double>(n);
  return {static_cast<double>(counts.visited) * scale, static_cast<double>(counts.executed) * scale,
          counts.visible * scale, static_cast<double>(counts.executed - counts.masked) * scale};
}

AttentionPattern stochastic(std::int64_t window, bool circular) {
  AttentionPattern pattern{AttentionKind::Sa, window};
  pattern.circular = circular;
  return pattern;
}

}  // namespace

// Three tiles of 128 ranks, of whose blocks sorting lets 59 in 100 see anything; of five, 60. At
// the ends of a band that is not a circle a tile is missing.
TEST_CASE("sorted tiles leave three blocks in five to compute", "[simt]") {
  for (const std::int64_t n : {2048, 8192}) {
    for (const bool circular : {true, false}) {
      const Columns narrow = count_columns(stochastic(257, circular), n);
      const double ends = circular ? 0 : 2.0 / (static_cast<double>(n) / 128);
      CAPTURE(n, circular, narrow.visited, narrow.executed, narrow.visible, narrow.unmasked);
      CHECK(narrow.visited == Approx(128 * (3 - ends)));
      CHECK(narrow.executed / narrow.visited == Approx(0.594).margin(0.006));
      CHECK(narrow.visible == Approx(129 - 32 * ends).margin(2));
      CHECK(narrow.unmasked / narrow.visited == Approx(0.15).margin(0.01));
    }
  }
  const Columns wide = count_columns(stochastic(513, false), 2048);
  CAPTURE(wide.visited, wide.executed, wide.visible, wide.unmasked);
  CHECK(wide.visited == Approx(592));
  CHECK(wide.executed / wide.visited == Approx(0.600).margin(0.006));
  CHECK(wide.unmasked / wide.visited == Approx(0.25).margin(0.01));
}

TEST_CASE("few blocks of positions are computed in vain or masked", "[simt]") {
  const Columns full = count_columns({}, 2048);
  CAPTURE(full.visited, full.executed, full.visible, full.unmasked);
  CHECK(full.visible == Approx(2049 / 2.0));
  CHECK(full.executed == Approx(2064 / 2.0));
  CHECK(full.executed - full.unmasked == Approx(16));
  const Columns window = count_columns({AttentionKind::Swa, 256}, 2048);
  CAPTURE(window.visited, window.executed, window.visible, window.unmasked);
  CHECK(window.visited < 384);
  CHECK(window.executed - window.visible < 17);
}
