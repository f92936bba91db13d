#include "attention/permutation.h"

#include <algorithm>
#include <bit>

namespace flywheel {
namespace {

// About one word a bucket.
int bucket_bits(std::size_t length) {
  return std::max(1, static_cast<int>(std::bit_width(length)) - 1);
}

}  // namespace

Permuter::Permuter(std::int64_t max_length)
    : words_(static_cast<std::size_t>(max_length)),
      bucket_starts_((std::size_t{1} << bucket_bits(words_.size())) + 1),
      entries_(words_.size()) {}

void Permuter::draw(std::span<std::int32_t> sigma, const PermutationKey& key,
                    std::uint32_t sequence) {
  const std::size_t n = sigma.size();
  const int bits = bucket_bits(n);
  const int shift = 64 - bits;
  const std::span starts(bucket_starts_.data(), (std::size_t{1} << bits) + 1);
  std::fill(starts.begin(), starts.end(), 0);

  const RandomSequence random(key.seed, key.stream, key.draw, sequence, key.layer);
  for (std::size_t i = 0; i < n; ++i) {
    words_[i] = random.word(i);
    ++starts[(words_[i] >> shift) + 1];
  }
  for (std::size_t b = 1; b < starts.size(); ++b) starts[b] += starts[b - 1];
  for (std::size_t i = 0; i < n; ++i) {
    entries_[starts[words_[i] >> shift]++] = {words_[i], static_cast<std::int32_t>(i)};
  }

  // The words are uniform, so that an entry is at most a few places from its own.
  for (std::size_t k = 1; k < n; ++k) {
    const Entry entry = entries_[k];
    std::size_t place = k;
    for (; place > 0 && entries_[place - 1].word > entry.word; --place) {
      entries_[place] = entries_[place - 1];
    }
    entries_[place] = entry;
  }
  for (std::size_t rank = 0; rank < n; ++rank) {
    sigma[static_cast<std::size_t>(entries_[rank].position)] = static_cast<std::int32_t>(rank);
  }
}

}  // namespace flywheel
