#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/vocabulary.h"

namespace flywheel {

struct BpeMerge {
  std::int32_t left, right, result;
};

struct BpeRules {
  std::vector<BpeMerge> merges;  // in order of priority; of equal pairs the last one counts
  std::int32_t unknown = -1;     // stands for bytes that are no token; -1 drops them
  bool fuse_unknown = false;     // one `unknown` for a run of such bytes
  bool ignore_merges = false;    // a word that is a token stays whole
  bool byte_fallback = false;    // a character that is no token becomes the tokens of its bytes
};

// What merging one word needs to write to; kept from word to word, so that nothing is allocated.
struct BpeScratch {
  struct Symbol {
    std::int32_t id;
    std::int32_t previous, next;  // -1: none
  };
  std::vector<Symbol> symbols;
  std::vector<std::uint64_t> queue;
};

// Byte-pair encoding of single words (Sennrich et al. 2016, on bytes as in GPT-2): starting from
// its bytes (its characters where the vocabulary is spelled as SentencePiece does it), the adjacent
// pair of the earliest merge is joined, leftmost first, until no merge applies. O(m log m) for m
// bytes.
class Bpe {
 public:
  Bpe(const Vocabulary& vocabulary, BpeRules rules);
  void encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const;
  std::uint64_t checksum() const { return checksum_; }  // over merges and rules

 private:
  struct PairEntry {
    std::uint64_t pair;
    std::int32_t rank;
    std::int32_t result;
  };
  void build_pairs(const std::vector<BpeMerge>& merges);
  const PairEntry* find_pair(std::int32_t left, std::int32_t right) const;
  void start(std::string_view word, std::vector<BpeScratch::Symbol>& symbols) const;
  void start_characters(std::string_view word, std::vector<BpeScratch::Symbol>& symbols) const;
  void merge(BpeScratch& scratch) const;
  void push_pair(BpeScratch& scratch, std::int32_t left) const;

  BpeRules rules_;
  std::array<std::int32_t, 256> id_of_byte_{};  // -1: no such token
  bool by_characters_ = false;
  Vocabulary::IdOfToken characters_;   // only for SentencePiece's spelling
  Vocabulary::IdOfToken whole_words_;  // by their bytes; only for ignore_merges
  std::vector<PairEntry> pairs_;       // open addressing, a power of two
  int pair_shift_ = 0;
  std::uint64_t checksum_ = 0;
};

}  // namespace flywheel
