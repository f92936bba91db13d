#include "analysis/attention_operator.h"

namespace flywheel {
namespace {

constexpr std::int64_t kGrain = 64;

// Sums over ranks: by a running sum where every position in the band counts.
class BandSums {
 public:
  // x by position.
  BandSums(const AttentionBand& band, std::span<const double> x)
      : band_(band), by_rank_(x.size()), running_(x.size() + 1) {
    for (std::size_t r = 0; r < x.size(); ++r) {
      by_rank_[r] = x[static_cast<std::size_t>(band.position()[r])];
      running_[r + 1] = running_[r] + by_rank_[r];
    }
  }

  // Over the keys of query i. Causal bands of random ranks need a look at every one of them.
  double over_keys(std::int64_t i) const {
    return sum(band_.keys_of(rank(i)), [i](std::int32_t j) { return j <= i; });
  }
  double over_queries(std::int64_t j) const {
    return sum(band_.queries_of(rank(j)), [j](std::int32_t i) { return i >= j; });
  }

 private:
  std::int64_t rank(std::int64_t i) const { return band_.rank()[static_cast<std::size_t>(i)]; }

  template <class Counts>
  double sum(const std::array<RankRange, 2>& ranges, const Counts& counts) const {
    double total = 0;
    for (const RankRange range : ranges) {
      if (range.first >= range.last) continue;
      const auto first = static_cast<std::size_t>(range.first);
      const auto last = static_cast<std::size_t>(range.last);
      if (!band_.causal() || band_.ranks_are_positions()) {
        total += running_[last] - running_[first];
        continue;
      }
      for (std::size_t r = first; r < last; ++r) {
        total += counts(band_.position()[r]) ? by_rank_[r] : 0;
      }
    }
    return total;
  }

  const AttentionBand& band_;
  std::vector<double> by_rank_;
  std::vector<double> running_;
};

}  // namespace

AttentionOperator::AttentionOperator(LayerBands bands) : bands_(std::move(bands)) {
  const std::vector<double> ones(static_cast<std::size_t>(size()), 1);
  for (const AttentionBand& band : bands_) {
    const BandSums sums(band, ones);
    std::vector<double>& weights = weights_.emplace_back(ones.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] =
          1 / (sums.over_keys(static_cast<std::int64_t>(i)) * static_cast<double>(bands_.size()));
    }
  }
}

void AttentionOperator::apply(std::span<const double> x, std::span<double> y,
                              ThreadPool& pool) const {
  std::fill(y.begin(), y.end(), 0);
  for (std::size_t b = 0; b < bands_.size(); ++b) {
    const BandSums sums(bands_[b], x);
    pool.for_range(size(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto row = static_cast<std::size_t>(i);
        y[row] += weights_[b][row] * sums.over_keys(i);
      }
    });
  }
}

void AttentionOperator::apply_transposed(std::span<const double> x, std::span<double> y,
                                         ThreadPool& pool) const {
  std::fill(y.begin(), y.end(), 0);
  std::vector<double> weighted(x.size());
  for (std::size_t b = 0; b < bands_.size(); ++b) {
    for (std::size_t i = 0; i < x.size(); ++i) weighted[i] = weights_[b][i] * x[i];
    const BandSums sums(bands_[b], weighted);
    pool.for_range(size(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t j = begin; j < end; ++j) {
        y[static_cast<std::size_t>(j)] += sums.over_queries(j);
      }
    });
  }
}

}  // namespace flywheel
