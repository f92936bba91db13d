#include "analysis/position_loss.h"

#include <bit>

namespace flywheel {
namespace {

constexpr std::int64_t kFirstBin = 16;

std::size_t bin_of(std::int64_t context) {
  return static_cast<std::size_t>(
      std::bit_width(static_cast<std::uint64_t>((context - 1) / kFirstBin)));
}

}  // namespace

std::vector<PositionLoss> loss_by_position(std::span<const TokenRequest> requests,
                                           std::span<const std::vector<TokenScore>> scores) {
  std::vector<PositionLoss> bins;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    std::int64_t context = requests[r].first_scored;
    for (const TokenScore& score : scores[r]) {
      const std::size_t bin = bin_of(context++);
      if (bin >= bins.size()) bins.resize(bin + 1);
      bins[bin].tokens += 1;
      bins[bin].loss += double{score.loss};
    }
  }
  std::vector<PositionLoss> result;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    if (bins[b].tokens == 0) continue;
    bins[b].first = b == 0 ? 1 : (kFirstBin << (b - 1)) + 1;
    bins[b].last = kFirstBin << b;
    bins[b].loss /= static_cast<double>(bins[b].tokens);
    result.push_back(bins[b]);
  }
  return result;
}

}  // namespace flywheel
