#include "attention/plan.h"

#include <cmath>
#include <set>

#include "attention/counts.h"
#include "attention/tile_walk.h"
#include "core/error.h"
#include "support/attention_reference.h"
#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

AttentionPlan prepared(const AttentionCase& c) {
  AttentionPlan plan(c.pattern, 64, c.tokens(), std::ssize(c.cu_seqlens) - 1);
  plan.prepare(c.cu_seqlens, c.key, c.first_sequence);
  return plan;
}

std::vector<std::int32_t> sigma_of(const AttentionCase& c, std::int64_t sequence) {
  const auto number = c.first_sequence + static_cast<std::uint32_t>(sequence);
  return reference_permutation(c.key, c.pattern.per_sequence ? number : 0,
                               c.cu_seqlens[at(sequence + 1)] - c.cu_seqlens[at(sequence)]);
}

std::int64_t count_by_brute_force(const AttentionCase& c) {
  std::int64_t pairs = 0;
  for (std::int64_t s = 0; s + 1 < std::ssize(c.cu_seqlens); ++s) {
    const std::int64_t n = c.cu_seqlens[at(s + 1)] - c.cu_seqlens[at(s)];
    const auto sigma = sigma_of(c, s);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) pairs += visible(c.pattern, sigma, n, i, j);
    }
  }
  return pairs;
}

AttentionCase sa_case(std::int64_t n, std::int64_t window, std::uint32_t draw = 0) {
  AttentionCase c;
  c.pattern = {AttentionKind::Sa, window};
  c.key.draw = draw;
  c.cu_seqlens = {0, static_cast<std::int32_t>(n)};
  return c;
}

// Whether the walk's test lets query rank `q` see key rank `k` of a virtual tile.
bool walk_sees(const TileWalk& walk, std::int64_t virtual_tile, std::int64_t q, std::int64_t k) {
  const std::int64_t d = q + walk.offset() - (k + walk.rank_shift(virtual_tile));
  const auto inside = [&](std::int64_t x) { return 0 <= x && x < walk.slots(); };
  return inside(d) || (walk.wrap() != 0 && (inside(d + walk.wrap()) || inside(d - walk.wrap())));
}

// Every key in the band of a query is met exactly once, and inside_band() claims nothing false.
void check_walk(const AttentionPattern& pattern, std::int64_t n, std::int64_t tile) {
  const TileWalk walk(pattern, n, tile);
  std::int64_t previous_first = -n;
  for (std::int64_t t = 0; t < walk.tiles(); ++t) {
    const TileWalk::Interval keys = walk.keys(t);
    REQUIRE(keys.first >= previous_first);
    REQUIRE(keys.last - keys.first < walk.tiles());
    REQUIRE(keys.last - keys.first < walk.widest(1));
    previous_first = keys.first;
    for (std::int64_t q = t * tile; q < t * tile + walk.rows(t); ++q) {
      for (std::int64_t k = 0; k < n; ++k) {
        const std::int64_t place = k / tile;
        std::int64_t v = keys.first;
        while (v <= keys.last && walk.key_tile(v) != place) ++v;
        const bool met = v <= keys.last;
        bool sees = false;
        if (walk.kind() == AttentionKind::Sa) {
          // Equal positions leave the ranks alone to decide.
          std::vector<std::int32_t> ranks{static_cast<std::int32_t>(k),
                                          static_cast<std::int32_t>(q)};
          sees = visible(pattern, ranks, n, 1, 0);
          REQUIRE((met && walk_sees(walk, v, q, k)) == sees);
        } else {
          const AttentionPattern full;
          sees = visible(pattern.sees_all(n) ? full : pattern, {}, n, q, k);
          REQUIRE((!sees || met));
          sees = sees || k > q;
        }
        if (met && walk.inside_band(t, v)) REQUIRE(sees);
      }
    }
  }
}

}  // namespace

TEST_CASE("a plan counts the visible pairs of the brute-force mask", "[attention]") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const AttentionCase c = random_attention_case(seed, 1e7);
    INFO("case " << seed << ": " << c.describe());
    REQUIRE(visible_pairs(prepared(c)) == count_by_brute_force(c));
  }
}

TEST_CASE("the slots of a plan are its permutations, by tile and position", "[attention]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    AttentionCase c = random_attention_case(seed, 1e7);
    c.pattern.kind = AttentionKind::Sa;
    INFO("case " << seed << ": " << c.describe());
    const AttentionPlan plan = prepared(c);
    REQUIRE(plan.tokens() == c.tokens());
    for (std::int64_t s = 0; s < plan.sequences(); ++s) {
      const auto sigma = sigma_of(c, s);
      const std::int64_t begin = c.cu_seqlens[at(s)];
      std::set<std::int32_t> positions;
      for (std::int64_t slot = 0; slot < plan.length(s); ++slot) {
        const std::int32_t position = plan.slot_position()[at(begin + slot)];
        const std::int32_t rank = plan.slot_rank()[at(begin + slot)];
        positions.insert(position);
        REQUIRE(sigma[at(position)] == rank);
        REQUIRE(rank / 64 == slot / 64);
        if (slot % 64 != 0) REQUIRE(plan.slot_position()[at(begin + slot - 1)] < position);
      }
      REQUIRE(std::ssize(positions) == plan.length(s));
    }
  }
}

TEST_CASE("equal sequences share a permutation unless each has its own", "[attention]") {
  AttentionCase c = sa_case(50, 9);
  c.cu_seqlens = {0, 50, 100, 130, 180};
  const AttentionPlan shared = prepared(c);
  const auto slots = [](const AttentionPlan& plan, std::int64_t begin) {
    const auto part = plan.slot_rank().subspan(at(begin), 50);
    return std::vector<std::int32_t>(part.begin(), part.end());
  };
  REQUIRE(slots(shared, 0) == slots(shared, 50));
  REQUIRE(slots(shared, 0) == slots(shared, 130));
  c.pattern.per_sequence = true;
  const AttentionPlan own = prepared(c);
  REQUIRE(slots(own, 0) != slots(own, 50));
  c.first_sequence = 1;  // the same global numbers, seen from another rank
  REQUIRE(slots(prepared(c), 0) == slots(own, 50));
}

TEST_CASE("tile walks meet every key of the band once", "[attention]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomSequence random(seed, RandomStream::kInitialization);
    AttentionPattern pattern;
    pattern.kind = seed % 4 == 0 ? AttentionKind::Swa : AttentionKind::Sa;
    const auto n = static_cast<std::int64_t>(1 + random.below(0, 90));
    pattern.window = static_cast<std::int64_t>(1 + random.below(1, at(n) + 5));
    pattern.band = random.below(2, 2) == 0 ? Band::Centered : Band::Trailing;
    pattern.budget = random.below(3, 3) == 0 ? Budget::Matched : Budget::Slots;
    pattern.circular = random.below(4, 3) != 0;
    INFO("case " << seed << ": n=" << n << " window=" << pattern.window
                 << " band=" << name_of_enum(pattern.band) << " circular=" << pattern.circular);
    check_walk(pattern, n, 8);
  }
}

TEST_CASE("closed forms of the mean visible keys are exact for full and swa", "[attention]") {
  for (const std::int64_t n : {1, 2, 10, 100, 333}) {
    for (const AttentionKind kind : {AttentionKind::Full, AttentionKind::Swa}) {
      for (const std::int64_t window : {1, 2, 7, 100, 400}) {
        AttentionCase c = sa_case(n, window);
        c.pattern.kind = kind;
        REQUIRE(mean_visible_keys(c.pattern, n) == Approx(mean_visible_keys(prepared(c))));
      }
    }
  }
}

TEST_CASE("sa sees as many keys as its closed forms expect", "[attention]") {
  constexpr std::int64_t n = 160;
  constexpr int kDraws = 400;
  for (const bool circular : {true, false}) {
    for (const Band band : {Band::Centered, Band::Trailing}) {
      for (const std::int64_t window : {1, 2, 16, 31, 120}) {
        AttentionCase c = sa_case(n, window);
        c.pattern.circular = circular;
        c.pattern.band = band;
        c.pattern.budget = window % 2 == 0 ? Budget::Slots : Budget::Matched;
        double sum = 0;
        double squares = 0;
        for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
          c.key.draw = draw;
          const double mean = mean_visible_keys(prepared(c));
          sum += mean;
          squares += mean * mean;
        }
        const double mean = sum / kDraws;
        const double deviation = std::sqrt(std::max(0.0, squares / kDraws - mean * mean) / kDraws);
        INFO(c.describe() << ": measured " << mean << " +- " << deviation);
        REQUIRE(std::abs(mean - mean_visible_keys(c.pattern, n)) < 5 * deviation + 1e-9);
      }
    }
  }
}

TEST_CASE("query i of sa sees 1 + (s - 1) i / (n - 1) keys in expectation", "[attention]") {
  constexpr std::int64_t n = 60;
  constexpr int kDraws = 3000;
  const AttentionPattern pattern{AttentionKind::Sa, 13};
  std::vector<double> seen(n, 0);
  for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
    const auto sigma =
        reference_permutation({1, RandomStream::kTrainingPermutation, 0, draw}, 0, n);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) seen[at(i)] += visible(pattern, sigma, n, i, j);
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const double expected = 1 + 12.0 * static_cast<double>(i) / (n - 1);
    // A hypergeometric count of 12 slots has a variance below 12 / 4.
    REQUIRE(std::abs(seen[at(i)] / kDraws - expected) < 5 * std::sqrt(3.0 / kDraws));
  }
}

TEST_CASE("plans refuse what they were not made for", "[attention]") {
  REQUIRE_THROWS_AS(AttentionPlan({AttentionKind::Swa, 0}, 64, 10, 1), Error);
  REQUIRE_THROWS_AS(AttentionPlan({AttentionKind::Sa, 0}, 64, 10, 1), Error);
  AttentionPlan plan({AttentionKind::Sa, 4}, 64, 10, 2);
  const auto prepare = [&](std::vector<std::int32_t> cu_seqlens) { plan.prepare(cu_seqlens, {}); };
  REQUIRE_NOTHROW(prepare({0, 4, 10}));
  REQUIRE_THROWS_AS(prepare({}), Error);
  REQUIRE_THROWS_AS(prepare({1, 4}), Error);
  REQUIRE_THROWS_AS(prepare({0, 4, 4}), Error);
  REQUIRE_THROWS_AS(prepare({0, 5, 4}), Error);
  REQUIRE_THROWS_AS(prepare({0, 11}), Error);
  REQUIRE_THROWS_AS(prepare({0, 1, 2, 3}), Error);
}
