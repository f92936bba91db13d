#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/loader.h"
#include "model/transformer.h"

namespace flywheel {

// Takes runs of whole windows out of a batch.
class BatchSlicer {
 public:
  // Up to `max_sequences` sequences a slice.
  BatchSlicer(std::int64_t sequence_length, std::int64_t max_sequences);

  // Windows [begin, begin + count). Valid until the next call and as long as the batch.
  PackedTokens slice(const Batch& batch, std::int64_t begin, std::int64_t count);

 private:
  std::int64_t sequence_length_;
  std::vector<std::int32_t> cu_seqlens_;
};

std::int64_t count_targets(std::span<const std::int32_t> targets);  // that are not -1

}  // namespace flywheel
