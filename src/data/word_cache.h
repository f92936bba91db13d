#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace flywheel {

// A word padded with zeros, its length in the last byte: two words are equal if their keys are.
template <std::size_t kParts>
struct WordKey {
  static constexpr std::size_t kMaxBytes = 8 * kParts - 1;
  std::array<std::uint64_t, kParts> parts;

  // `word` has at most kMaxBytes, and `readable` bytes may be read from its start.
  WordKey(std::string_view word, std::size_t readable) : parts{} {
    if (readable >= sizeof parts) {
      std::memcpy(parts.data(), word.data(), sizeof parts);
      for (std::size_t i = 0; i < kParts; ++i) parts[i] &= kMasks[word.size()][i];
    } else {
      std::memcpy(parts.data(), word.data(), word.size());
    }
    parts[kParts - 1] |= static_cast<std::uint64_t>(word.size()) << 56;
  }
  WordKey() : parts{} {}

  bool operator==(const WordKey& other) const {
    std::uint64_t difference = 0;
    for (std::size_t i = 0; i < kParts; ++i) difference |= parts[i] ^ other.parts[i];
    return difference == 0;
  }

  std::uint64_t hash() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t part : parts) sum = (sum ^ (sum >> 29) ^ part) * 0x9E3779B97F4A7C15u;
    return sum;
  }

 private:
  using Masks = std::array<std::array<std::uint64_t, kParts>, kMaxBytes + 1>;
  static constexpr Masks make_masks() {
    Masks masks{};
    for (std::size_t size = 0; size < masks.size(); ++size) {
      for (std::size_t i = 0; i < size; ++i) {
        masks[size][i / 8] |= std::uint64_t{0xFF} << (8 * (i % 8));
      }
    }
    return masks;
  }
  static constexpr Masks kMasks = make_masks();
};

// The tokens of words seen before: 2^kSetBits sets of two words each, so of bounded size; a new
// word displaces the older of its set. For one thread at a time.
template <std::size_t kParts, std::size_t kIds, int kSetBits>
class WordCache {
 public:
  using Key = WordKey<kParts>;
  static constexpr std::size_t kMaxIds = kIds;

  struct Entry {
    Key key;
    std::int32_t count = 0;
    std::int32_t ids[kIds] = {};
  };

  static std::size_t set_of(const Key& key) { return key.hash() >> (64 - kSetBits); }

  void prefetch(std::size_t set) const { __builtin_prefetch(&sets_[set]); }

  // Null if the word is not there.
  const Entry* find(const Key& key, std::size_t set) const {
    const Set& place = sets_[set];
    if (place.entries[0].key == key) return &place.entries[0];
    if (place.entries[1].key == key) return &place.entries[1];
    return nullptr;
  }

  // `ids` are 1 to kMaxIds.
  void store(const Key& key, std::size_t set, std::span<const std::int32_t> ids) {
    Set& place = sets_[set];
    place.entries[1] = place.entries[0];
    place.entries[0].key = key;
    place.entries[0].count = static_cast<std::int32_t>(ids.size());
    std::memcpy(place.entries[0].ids, ids.data(), ids.size_bytes());
  }

 private:
  struct alignas(64) Set {
    Entry entries[2];
  };
  std::vector<Set> sets_ = std::vector<Set>(std::size_t{1} << kSetBits);
};

}  // namespace flywheel
