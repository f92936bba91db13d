#include "analysis/attention_band.h"

#include <numeric>

#include "core/error.h"

namespace flywheel {

AttentionBand::AttentionBand(const AttentionPattern& pattern, std::int64_t n,
                             const PermutationKey& key, Mask mask)
    : n_(n),
      causal_(mask == Mask::Causal),
      ranks_are_positions_(pattern.kind != AttentionKind::Sa || pattern.sees_all(n)) {
  require(n >= 1 && n <= std::int64_t{1} << 30, ErrorKind::Config, "{} tokens: expected 1 to 2^30",
          n);
  require(pattern.kind != AttentionKind::Moba || pattern.sees_all(n), ErrorKind::Config,
          "moba: which keys a query sees depends on the text; expected full, swa, sa or sa_swa");
  rank_.resize(static_cast<std::size_t>(n));
  if (!ranks_are_positions_) {
    offset_ = std::min(pattern.offset(), n - 1);
    slots_ = offset_ + 1 + std::min(pattern.slots() - 1 - pattern.offset(), n - 1);
    circular_ = pattern.circular;
    Permuter(n).draw(rank_, key, 0);
  } else {
    const std::int64_t reach = pattern.sees_all(n) ? n : pattern.window;
    slots_ = causal_ ? reach : 2 * reach - 1;
    offset_ = causal_ ? 0 : reach - 1;
    circular_ = false;
    std::iota(rank_.begin(), rank_.end(), 0);
  }
  position_.resize(rank_.size());
  for (std::size_t i = 0; i < rank_.size(); ++i) {
    position_[static_cast<std::size_t>(rank_[i])] = static_cast<std::int32_t>(i);
  }
}

void AttentionBand::add_image(std::span<const std::uint8_t> set, std::span<std::uint8_t> image,
                              std::vector<std::int32_t>& scratch) const {
  constexpr std::int32_t kNobody = -1;
  // The circle cut open: entry x stands for rank x - offset, so that the queries of the key of rank
  // r are the entries r to r + slots - 1.
  const auto n = static_cast<std::size_t>(n_);
  const auto slots = static_cast<std::size_t>(slots_);
  const std::size_t length = n + slots - 1;
  scratch.assign(2 * length, kNobody);
  const std::span member(scratch.data(), length);
  const std::span suffix(scratch.data() + length, length);
  for (std::size_t i = 0; i < n; ++i) {
    if (set[i] == 0) continue;
    const std::int64_t x = rank_[i] + offset_;
    const std::array copies{x - n_, x, x + n_};
    for (const std::int64_t copy : copies) {
      if ((circular_ || copy == x) && 0 <= copy && copy < static_cast<std::int64_t>(length)) {
        member[static_cast<std::size_t>(copy)] = static_cast<std::int32_t>(i);
      }
    }
  }
  // Maxima of windows from those of prefixes and suffixes of blocks as long as a window (van Herk
  // 1992, Gil and Werman 1993); `member` becomes the prefixes.
  for (std::size_t begin = 0; begin < length; begin += slots) {
    const std::size_t end = std::min(begin + slots, length);
    suffix[end - 1] = member[end - 1];
    for (std::size_t x = end - 1; x-- > begin;) suffix[x] = std::max(member[x], suffix[x + 1]);
    for (std::size_t x = begin + 1; x < end; ++x) member[x] = std::max(member[x], member[x - 1]);
  }
  for (std::size_t j = 0; j < n; ++j) {
    const auto r = static_cast<std::size_t>(rank_[j]);
    const std::int32_t last = std::max(suffix[r], member[r + slots - 1]);
    const std::int32_t needed = causal_ ? static_cast<std::int32_t>(j) : 0;
    image[j] |= static_cast<std::uint8_t>(last >= needed);
  }
}

std::vector<LayerBands> draw_bands(const AttentionStack& stack, std::int64_t n, std::uint64_t seed,
                                   Mask mask) {
  std::vector<LayerBands> bands;
  for (const LayerAttention& layer : stack.layers) {
    const PermutationKey key{.seed = seed,
                             .stream = RandomStream::kEvaluationPermutation,
                             .layer = static_cast<std::uint32_t>(bands.size())};
    LayerBands& paths = bands.emplace_back();
    for (const AttentionPattern& pattern : paths_of(layer)) {
      paths.emplace_back(pattern, n, key, mask);
    }
  }
  return bands;
}

}  // namespace flywheel
