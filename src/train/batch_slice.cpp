#include "train/batch_slice.h"

#include <algorithm>

namespace flywheel {

BatchSlicer::BatchSlicer(std::int64_t sequence_length, std::int64_t max_sequences)
    : sequence_length_(sequence_length) {
  cu_seqlens_.reserve(static_cast<std::size_t>(max_sequences + 1));
}

PackedTokens BatchSlicer::slice(const Batch& batch, std::int64_t begin, std::int64_t count) {
  const auto first = static_cast<std::size_t>(begin * sequence_length_);
  const auto tokens = static_cast<std::size_t>(count * sequence_length_);
  // Every window begins a sequence, so both ends are in the list.
  const auto low = std::lower_bound(batch.cu_seqlens.begin(), batch.cu_seqlens.end(),
                                    static_cast<std::int32_t>(first));
  const auto high =
      std::lower_bound(low, batch.cu_seqlens.end(), static_cast<std::int32_t>(first + tokens));
  cu_seqlens_.clear();
  for (auto boundary = low; boundary <= high; ++boundary) cu_seqlens_.push_back(*boundary - *low);
  return {.inputs = batch.inputs.subspan(first, tokens),
          .targets = batch.targets.subspan(first, tokens),
          .positions = batch.positions.subspan(first, tokens),
          .cu_seqlens = cu_seqlens_,
          .first_sequence = static_cast<std::uint32_t>(low - batch.cu_seqlens.begin())};
}

std::int64_t count_targets(std::span<const std::int32_t> targets) {
  return static_cast<std::int64_t>(targets.size()) - std::count(targets.begin(), targets.end(), -1);
}

}  // namespace flywheel
