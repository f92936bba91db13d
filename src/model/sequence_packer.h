#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/transformer.h"

namespace flywheel {

// Collects sequences back to back for one pass of a Transformer; every sequence's positions start
// at 0.
class SequencePacker {
 public:
  // targets: one an input, -1 = not counted.
  void add(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets) {
    inputs_.insert(inputs_.end(), inputs.begin(), inputs.end());
    targets_.insert(targets_.end(), targets.begin(), targets.end());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      positions_.push_back(static_cast<std::int32_t>(i));
    }
    cu_seqlens_.push_back(static_cast<std::int32_t>(inputs_.size()));
  }

  void clear() {
    inputs_.clear();
    targets_.clear();
    positions_.clear();
    cu_seqlens_.assign(1, 0);
  }

  std::int64_t tokens() const { return static_cast<std::int64_t>(inputs_.size()); }
  std::int64_t sequences() const { return static_cast<std::int64_t>(cu_seqlens_.size()) - 1; }

  // Valid until the next change.
  PackedTokens view() const {
    return {
        .inputs = inputs_, .targets = targets_, .positions = positions_, .cu_seqlens = cu_seqlens_};
  }

 private:
  std::vector<std::int32_t> inputs_;
  std::vector<std::int32_t> targets_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> cu_seqlens_{0};
};

}  // namespace flywheel
