#include "attention/plan.h"

#include <algorithm>

#include "core/error.h"

namespace flywheel {

AttentionPlan::AttentionPlan(const AttentionPattern& pattern, std::int64_t tile,
                             std::int64_t max_tokens, std::int64_t max_sequences)
    : pattern_(pattern),
      tile_(tile),
      max_tokens_(max_tokens),
      max_sequences_(max_sequences),
      permuter_(pattern.kind == AttentionKind::Sa ? max_tokens : 0) {
  if (pattern.kind == AttentionKind::Moba) {
    require(pattern.block >= 1 && pattern.top_k >= 1, ErrorKind::Config,
            "attention pattern 'moba': {} blocks of {} keys; expected 1 or more of both",
            pattern.top_k, pattern.block);
  } else {
    require(pattern.kind == AttentionKind::Full || pattern.window >= 1, ErrorKind::Config,
            "attention pattern '{}': window is {}; expected 1 key or more",
            name_of_enum(pattern.kind), pattern.window);
  }
  cu_seqlens_.reserve(static_cast<std::size_t>(max_sequences) + 1);
  if (pattern.kind != AttentionKind::Sa) return;
  const auto tokens = static_cast<std::size_t>(max_tokens);
  slot_position_.reserve(tokens);
  slot_rank_.reserve(tokens);
  sigma_.resize(tokens);
  next_slot_.resize(tokens / static_cast<std::size_t>(tile) + 1);
}

void AttentionPlan::prepare(std::span<const std::int32_t> cu_seqlens, const PermutationKey& key,
                            std::uint32_t first_sequence) {
  require(!cu_seqlens.empty() && cu_seqlens.front() == 0, ErrorKind::Shape,
          "cu_seqlens must start with 0");
  require(std::ssize(cu_seqlens) - 1 <= max_sequences_ && cu_seqlens.back() <= max_tokens_,
          ErrorKind::Shape, "{} tokens in {} sequences do not fit a plan made for {} in {}",
          cu_seqlens.back(), cu_seqlens.size() - 1, max_tokens_, max_sequences_);
  for (std::size_t s = 1; s < cu_seqlens.size(); ++s) {
    require(cu_seqlens[s] > cu_seqlens[s - 1], ErrorKind::Shape,
            "sequence {} has {} tokens; expected 1 or more", s - 1,
            cu_seqlens[s] - cu_seqlens[s - 1]);
  }
  cu_seqlens_.assign(cu_seqlens.begin(), cu_seqlens.end());
  if (pattern_.kind != AttentionKind::Sa) return;

  slot_position_.resize(static_cast<std::size_t>(tokens()));
  slot_rank_.resize(static_cast<std::size_t>(tokens()));
  for (std::size_t s = 0; s + 1 < cu_seqlens_.size(); ++s) {
    const auto begin = static_cast<std::size_t>(cu_seqlens_[s]);
    const auto n = static_cast<std::size_t>(cu_seqlens_[s + 1]) - begin;
    const bool as_before = !pattern_.per_sequence && s > 0 &&
                           begin - static_cast<std::size_t>(cu_seqlens_[s - 1]) == n;
    if (as_before) {
      std::copy_n(slot_position_.data() + begin - n, n, slot_position_.data() + begin);
      std::copy_n(slot_rank_.data() + begin - n, n, slot_rank_.data() + begin);
    } else {
      const auto number = first_sequence + static_cast<std::uint32_t>(s);
      fill_slots(begin, n, key, pattern_.per_sequence ? number : 0);
    }
  }
}

// Hands each position, in ascending order, the next free slot of its tile.
void AttentionPlan::fill_slots(std::size_t begin, std::size_t length, const PermutationKey& key,
                               std::uint32_t sequence) {
  const std::span sigma(sigma_.data(), length);
  permuter_.draw(sigma, key, sequence);
  const auto tile = static_cast<std::size_t>(tile_);
  for (std::size_t t = 0; t * tile < length; ++t) next_slot_[t] = begin + t * tile;
  for (std::size_t position = 0; position < length; ++position) {
    const auto rank = static_cast<std::size_t>(sigma[position]);
    const std::size_t slot = next_slot_[rank / tile]++;
    slot_position_[slot] = static_cast<std::int32_t>(position);
    slot_rank_[slot] = sigma[position];
  }
}

}  // namespace flywheel
