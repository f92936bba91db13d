#include "data/window_order.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace flywheel {
namespace {

__extension__ using Wide = unsigned __int128;

// round(number * share), exactly.
std::uint64_t portion(std::uint64_t number, std::uint64_t share) {
  return static_cast<std::uint64_t>((Wide{number} * share + (std::uint64_t{1} << 31)) >> 32);
}

}  // namespace

SourceMixture::SourceMixture(std::span<const double> weights) {
  double rest = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t source = 0; source + 1 < weights.size(); ++source) {
    shares_.push_back(static_cast<std::uint64_t>(std::llround(weights[source] / rest * 0x1p32)));
    rest -= weights[source];
  }
}

SourceMixture::Turn SourceMixture::at(std::uint64_t number) const {
  for (std::size_t source = 0; source < shares_.size(); ++source) {
    const std::uint64_t before = portion(number, shares_[source]);
    if (portion(number + 1, shares_[source]) > before) return {source, before};
    number -= before;
  }
  return {shares_.size(), number};
}

std::uint64_t SourceMixture::count(std::size_t source, std::uint64_t numbers) const {
  for (std::size_t level = 0; level < source; ++level) numbers -= portion(numbers, shares_[level]);
  return source < shares_.size() ? portion(numbers, shares_[source]) : numbers;
}

WindowOrder::WindowOrder(std::vector<std::int64_t> windows, std::span<const double> weights,
                         std::uint64_t seed, bool shuffle)
    : windows_(std::move(windows)),
      mixture_(weights),
      seed_(seed),
      shuffle_(shuffle),
      epochs_(windows_.size()) {}

WindowOrder::Place WindowOrder::at(std::int64_t number) {
  const auto turn = mixture_.at(static_cast<std::uint64_t>(number));
  const auto windows = static_cast<std::uint64_t>(windows_[turn.source]);
  std::uint64_t window = turn.count % windows;
  if (shuffle_) {
    const std::uint64_t epoch = turn.count / windows;
    std::optional<Epoch>& current = epochs_[turn.source];
    if (!current || current->number != epoch) {
      current.emplace(
          Epoch{epoch, IndexPermutation(windows, seed_, static_cast<std::uint32_t>(turn.source),
                                        static_cast<std::uint32_t>(epoch))});
    }
    window = current->permutation(window);
  }
  return {turn.source, static_cast<std::int64_t>(window)};
}

double WindowOrder::epochs(std::int64_t number) const {
  return static_cast<double>(mixture_.count(0, static_cast<std::uint64_t>(number))) /
         static_cast<double>(windows_[0]);
}

}  // namespace flywheel
