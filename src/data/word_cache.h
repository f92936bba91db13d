#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace flywheel {

// A word of up to 31 bytes, padded with zeros, its length in the last byte: two words are equal if
// their keys are.
struct WordKey {
  static constexpr std::size_t kMaxBytes = 31;
  std::uint64_t parts[4];

  bool operator==(const WordKey& other) const {
    return ((parts[0] ^ other.parts[0]) | (parts[1] ^ other.parts[1]) |
            (parts[2] ^ other.parts[2]) | (parts[3] ^ other.parts[3])) == 0;
  }

  std::uint64_t hash() const {
    std::uint64_t sum = parts[0] * 0x9E3779B97F4A7C15u + parts[1] * 0xC2B2AE3D27D4EB4Fu +
                        parts[2] * 0x165667B19E3779F9u + parts[3] * 0xD6E8FEB86659FD93u;
    sum ^= sum >> 32;
    return sum * 0xFF51AFD7ED558CCDu;
  }
};

// The tokens of words seen before: direct-mapped, so of bounded size; a new word displaces the one
// in its place. One cache a thread.
class WordCache {
 public:
  static constexpr std::size_t kMaxIds = 7;

  WordCache() : entries_(std::size_t{1} << kBits) {}

  // The cached tokens; empty if the word is not there.
  std::span<const std::int32_t> find(const WordKey& key) const {
    const Entry& entry = entries_[key.hash() >> (64 - kBits)];
    if (!(entry.key == key)) return {};
    return {entry.ids, static_cast<std::size_t>(entry.count)};
  }

  void store(const WordKey& key, std::span<const std::int32_t> ids) {
    if (ids.empty() || ids.size() > kMaxIds) return;
    Entry& entry = entries_[key.hash() >> (64 - kBits)];
    entry.key = key;
    entry.count = static_cast<std::int32_t>(ids.size());
    std::memcpy(entry.ids, ids.data(), ids.size_bytes());
  }

 private:
  static constexpr int kBits = 15;

  struct alignas(64) Entry {
    WordKey key;
    std::int32_t count;
    std::int32_t ids[kMaxIds];
  };

  std::vector<Entry> entries_;
};

}  // namespace flywheel
