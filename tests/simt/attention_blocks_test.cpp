// The rules by which the tensor-core kernels leave out blocks and masks, against the mask itself.
#include "cuda/kernels/attention_blocks.h"
#include "attention/counts.h"
#include "cuda/attention_plans.h"
#include "support/attention_reference.h"
#include "support/catch.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

// Own rows are queries, or keys, as in the two passes backward.
template <bool kOwnQueries>
class BlockCheck {
 public:
  BlockCheck(const AttentionPlan& plan, const cuda::AttentionTile& own,
             const std::vector<std::int32_t>& sigma)
      : pattern_(plan.pattern()), own_(own), sigma_(sigma) {
    lists_.slot_position = plan.slot_position().data();
    lists_.slot_rank = plan.slot_rank().data();
  }

  // Pairs that see each other in the blocks that are not left out.
  std::int64_t visible_pairs() const {
    const cuda::Part mine = cuda::part_of(own_, {own_.tile, 0}, 0, cuda::kAttentionTile);
    std::int64_t pairs = 0;
    cuda::ChunkWalk<kOwnQueries> walk(own_, mine);
    for (cuda::Part met = walk.next(); met.count > 0; met = walk.next()) {
      for (int row = 0; row < mine.count; row += cuda::kGroup) {
        for (int column = 0; column < met.count; column += cuda::kGroup) {
          pairs += kOwnQueries ? check_block(mine, row, met, column, met.tile)
                               : check_block(met, column, mine, row, met.tile);
        }
      }
    }
    return pairs;
  }

 private:
  std::int64_t check_block(const cuda::Part& queries, int row, const cuda::Part& keys, int column,
                           cuda::MetTile met) const {
    const auto position_in = [this](const cuda::Part& part) {
      return [this, part](std::int32_t r) { return cuda::position_of(lists_, own_, part, r); };
    };
    const cuda::Span query_span = cuda::span_of_queries(position_in(queries), row, queries.count);
    const cuda::Span key_span = cuda::span_of_keys(position_in(keys), column, keys.count);
    const std::int64_t rows = std::min(cuda::kGroup, queries.count - row);
    const std::int64_t columns = std::min(cuda::kGroup, keys.count - column);
    std::int64_t seen = 0;
    for (int q = row; q < row + rows; ++q) {
      for (int k = column; k < column + columns; ++k) {
        const std::int32_t query = cuda::position_of(lists_, own_, queries, q);
        const std::int32_t key = cuda::position_of(lists_, own_, keys, k);
        seen += visible(pattern_, sigma_, own_.length, query, key) ? 1 : 0;
      }
    }
    const bool in_band = cuda::tiles_in_band<kOwnQueries>(own_, met);
    if (!cuda::meet(own_, query_span, key_span)) {
      REQUIRE(seen == 0);
    } else if (cuda::all_visible(own_, in_band, query_span, key_span)) {
      REQUIRE(seen == rows * columns);
    }
    return seen;
  }

  const AttentionPattern& pattern_;
  const cuda::AttentionTile& own_;
  const std::vector<std::int32_t>& sigma_;
  cuda::DevicePlan lists_{};
};

void check_plan(const AttentionPattern& pattern, std::int32_t n) {
  const PermutationKey key{9, RandomStream::kTrainingPermutation, 2, 1};
  AttentionPlan plan(pattern, cuda::kAttentionTile, n, 1);
  plan.prepare(std::vector<std::int32_t>{0, n}, key);
  const std::vector<std::int32_t> sigma = reference_permutation(key, 0, n);
  std::vector<cuda::AttentionTile> tiles;
  cuda::list_tiles(plan, tiles);
  std::int64_t by_queries = 0;
  std::int64_t by_keys = 0;
  for (const cuda::AttentionTile& own : tiles) {
    by_queries += BlockCheck<true>(plan, own, sigma).visible_pairs();
    by_keys += BlockCheck<false>(plan, own, sigma).visible_pairs();
  }
  REQUIRE(by_queries == visible_pairs(plan));
  REQUIRE(by_keys == visible_pairs(plan));
}

}  // namespace

// Around windows of one, two and four tiles, where whole tiles come to lie in the band.
TEST_CASE("no block with a visible pair is left out, none with a hidden one unmasked", "[simt]") {
  const std::int32_t n = 705;  // the last block has one row
  check_plan({}, n);
  for (const std::int64_t window :
       {1, 40, 127, 128, 129, 254, 255, 256, 257, 382, 383, 384, 509, 510, 511, 512, 640, 704}) {
    check_plan({AttentionKind::Swa, window}, n);
    for (const bool circular : {true, false}) {
      for (const Band band : {Band::Centered, Band::Trailing}) {
        AttentionPattern pattern{AttentionKind::Sa, window, band};
        pattern.circular = circular;
        CAPTURE(window, circular, static_cast<int>(band));
        check_plan(pattern, n);
      }
    }
  }
}
