#include "data/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <span>
#include <utility>

#include "core/checksum.h"
#include "core/error.h"
#include "data/byte_level.h"
#include "data/sentencepiece.h"
#include "data/utf8.h"

namespace flywheel {

namespace {

constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
constexpr std::size_t kMaxWordBytes = std::size_t{1} << 30;
constexpr std::size_t kKeptSymbols = 1 << 16;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

std::uint64_t hash_pair(std::uint64_t key) {
  return key * 0x9E3779B97F4A7C15u;
}

// Appends a symbol; -1 stands for bytes that are no token.
class SymbolWriter {
 public:
  SymbolWriter(const BpeRules& rules, std::vector<BpeScratch::Symbol>& symbols)
      : rules_(rules), symbols_(symbols) {
    symbols_.clear();
  }
  ~SymbolWriter() {
    if (!symbols_.empty()) symbols_.back().next = -1;
  }
  SymbolWriter(const SymbolWriter&) = delete;
  SymbolWriter& operator=(const SymbolWriter&) = delete;

  void add(std::int32_t id) {
    const bool unknown = id < 0;
    if (unknown && (rules_.unknown < 0 || (rules_.fuse_unknown && last_was_unknown_))) return;
    const auto at = static_cast<std::int32_t>(symbols_.size());
    symbols_.push_back({unknown ? rules_.unknown : id, at - 1, at + 1});
    last_was_unknown_ = unknown;
  }

 private:
  const BpeRules& rules_;
  std::vector<BpeScratch::Symbol>& symbols_;
  bool last_was_unknown_ = false;
};

bool is_one_character(std::string_view token) {
  return !token.empty() && valid_utf8_prefix(token) == token.size() &&
         static_cast<std::size_t>(decode_utf8(token.data()).length) == token.size();
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, BpeRules rules)
    : rules_(std::move(rules)),
      by_characters_(vocabulary.spelling() == TokenSpelling::SentencePiece) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    id_of_byte_[byte] = vocabulary.find(
        by_characters_ ? byte_piece(static_cast<unsigned char>(byte)) : byte_alphabet()[byte]);
  }
  if (by_characters_) {
    for (const auto& [token, id] : vocabulary.tokens()) {
      if (is_one_character(token)) characters_.emplace(token, id);
    }
  }
  if (rules_.ignore_merges) {
    for (const auto& [token, id] : vocabulary.tokens()) {
      if (auto bytes = bytes_of_token(token)) whole_words_.emplace(std::move(*bytes), id);
    }
  }
  build_pairs(rules_.merges);

  StreamingChecksum sum;
  sum.update(std::as_bytes(std::span(rules_.merges)));
  const std::int32_t flags[] = {rules_.unknown, rules_.fuse_unknown,
                                rules_.ignore_merges | (rules_.byte_fallback ? 2 : 0)};
  sum.update(std::as_bytes(std::span(flags)));
  sum.update(std::as_bytes(std::span(id_of_byte_)));
  checksum_ = sum.value();
  rules_.merges = {};
}

void Bpe::build_pairs(const std::vector<BpeMerge>& merges) {
  const std::size_t capacity = std::bit_ceil(2 * merges.size() + 2);
  pair_shift_ = 64 - std::countr_zero(capacity);
  pairs_.assign(capacity, {kNoPair, -1, -1});
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t key = pair_key(merges[rank].left, merges[rank].right);
    std::size_t slot = hash_pair(key) >> pair_shift_;
    while (pairs_[slot].pair != kNoPair && pairs_[slot].pair != key) {
      slot = (slot + 1) & (capacity - 1);
    }
    pairs_[slot] = {key, static_cast<std::int32_t>(rank), merges[rank].result};
  }
}

const Bpe::PairEntry* Bpe::find_pair(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = pair_key(left, right);
  std::size_t slot = hash_pair(key) >> pair_shift_;
  while (true) {
    const PairEntry& entry = pairs_[slot];
    if (entry.pair == key) return &entry;
    if (entry.pair == kNoPair) return nullptr;
    slot = (slot + 1) & (pairs_.size() - 1);
  }
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, std::vector<std::int32_t>& ids) const {
  require(word.size() <= kMaxWordBytes, ErrorKind::Data,
          "a word of {} bytes is too long to tokenize; at most {} are supported", word.size(),
          kMaxWordBytes);
  if (rules_.ignore_merges) {
    const auto found = whole_words_.find(word);
    if (found != whole_words_.end()) return ids.push_back(found->second);
  }
  by_characters_ ? start_characters(word, scratch.symbols) : start(word, scratch.symbols);
  if (scratch.symbols.empty()) return;
  merge(scratch);
  for (std::int32_t at = 0; at >= 0; at = scratch.symbols[static_cast<std::size_t>(at)].next) {
    ids.push_back(scratch.symbols[static_cast<std::size_t>(at)].id);
  }
  if (scratch.symbols.size() > kKeptSymbols) scratch = {};
}

void Bpe::start(std::string_view word, std::vector<BpeScratch::Symbol>& symbols) const {
  SymbolWriter writer(rules_, symbols);
  for (const char c : word) writer.add(id_of_byte_[static_cast<unsigned char>(c)]);
}

void Bpe::start_characters(std::string_view word, std::vector<BpeScratch::Symbol>& symbols) const {
  SymbolWriter writer(rules_, symbols);
  while (!word.empty()) {
    const auto length = static_cast<std::size_t>(decode_utf8(word.data()).length);
    const std::string_view character = word.substr(0, length);
    word.remove_prefix(length);
    const auto found = characters_.find(character);
    if (found != characters_.end()) {
      writer.add(found->second);
      continue;
    }
    const auto id_of = [&](char c) { return id_of_byte_[static_cast<unsigned char>(c)]; };
    if (rules_.byte_fallback &&
        std::all_of(character.begin(), character.end(), [&](char c) { return id_of(c) >= 0; })) {
      for (const char c : character) writer.add(id_of(c));
    } else {
      writer.add(-1);
    }
  }
}

// Queues the pair that begins at symbol `left`, if a merge joins it: rank above position, so that
// the least entry is the earliest merge and among its places the leftmost.
void Bpe::push_pair(BpeScratch& scratch, std::int32_t left) const {
  const BpeScratch::Symbol& symbol = scratch.symbols[static_cast<std::size_t>(left)];
  if (symbol.next < 0) return;
  const PairEntry* const pair =
      find_pair(symbol.id, scratch.symbols[static_cast<std::size_t>(symbol.next)].id);
  if (!pair) return;
  scratch.queue.push_back(static_cast<std::uint64_t>(pair->rank) << 32 |
                          static_cast<std::uint32_t>(left));
}

void Bpe::merge(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  std::vector<std::uint64_t>& queue = scratch.queue;
  const auto push_and_sift = [&](std::int32_t left) {
    const std::size_t before = queue.size();
    push_pair(scratch, left);
    if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };

  queue.clear();
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    push_pair(scratch, static_cast<std::int32_t>(i));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t entry = queue.back();
    queue.pop_back();

    // An entry is stale when a symbol of its pair has been merged since.
    const auto left = static_cast<std::int32_t>(entry & 0xFFFFFFFFu);
    BpeScratch::Symbol& first = symbols[static_cast<std::size_t>(left)];
    if (first.id < 0 || first.next < 0) continue;
    BpeScratch::Symbol& second = symbols[static_cast<std::size_t>(first.next)];
    const PairEntry* const pair = find_pair(first.id, second.id);
    if (!pair || static_cast<std::uint64_t>(pair->rank) != entry >> 32) continue;

    first.id = pair->result;
    first.next = second.next;
    second.id = -1;
    if (first.next >= 0) symbols[static_cast<std::size_t>(first.next)].previous = left;
    if (first.previous >= 0) push_and_sift(first.previous);
    push_and_sift(left);
  }
}

}  // namespace flywheel
