#include "data/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <queue>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "data/byte_level.h"

namespace flywheel {

namespace {

using Pair = std::uint64_t;  // ordered as (left, right)

Pair make_pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<Pair>(left) << 32 | static_cast<Pair>(right);
}
std::int32_t left_of(Pair pair) {
  return static_cast<std::int32_t>(pair >> 32);
}
std::int32_t right_of(Pair pair) {
  return static_cast<std::int32_t>(pair & 0xFFFFFFFF);
}

// The tokens and their ids.
class TokenTable {
 public:
  explicit TokenTable(const std::vector<std::string>& special_tokens) {
    for (const std::string& token : special_tokens) id_of(token);
    std::array<std::string, 256> letters = byte_alphabet();
    std::sort(letters.begin(), letters.end());  // UTF-8 sorts as code points do
    for (const std::string& letter : letters) id_of(letter);
    require(tokens_.size() == special_tokens.size() + letters.size(), ErrorKind::Config,
            "special tokens must differ from each other and from single characters");
    for (std::size_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = id_of(byte_alphabet()[byte]);
  }

  std::int32_t id_of_byte(char byte) const { return byte_ids_[static_cast<unsigned char>(byte)]; }
  std::int32_t id_of_union(Pair pair) { return id_of(text(left_of(pair)) + text(right_of(pair))); }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::vector<std::string> take() { return std::move(tokens_); }

 private:
  const std::string& text(std::int32_t id) const { return tokens_[static_cast<std::size_t>(id)]; }

  std::int32_t id_of(const std::string& token) {
    const auto [place, is_new] = ids_.try_emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return place->second;
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, 256> byte_ids_{};
};

// The words as tokens, and all adjacent pairs with their counts and places.
class Corpus {
 public:
  struct PairState {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // that have it, and perhaps some that had
    bool grew = false;                 // is in grown_
  };
  using PairEntry = std::unordered_map<Pair, PairState>::value_type;

  Corpus(std::span<const WordCount> words, const TokenTable& tokens) {
    std::size_t bytes = 0;
    for (const WordCount& word : words) bytes += word.word.size();
    symbols_.reserve(bytes);
    words_.reserve(words.size());
    for (const WordCount& word : words) {
      words_.push_back({symbols_.size(), word.word.size(), word.count});
      for (const char byte : word.word) symbols_.push_back(tokens.id_of_byte(byte));
      count_pairs(static_cast<std::uint32_t>(words_.size() - 1));
    }
  }

  // Pairs whose counts have grown since the last call.
  std::vector<PairEntry*> take_grown() {
    for (PairEntry* const entry : grown_) entry->second.grew = false;
    return std::exchange(grown_, {});
  }

  // Joins the pair in all its words, leftmost first; it is gone then.
  void join(PairEntry& pair, std::int32_t result) {
    const Pair key = pair.first;
    const std::vector<std::uint32_t> places = std::exchange(pair.second.words, {});
    for (const std::uint32_t word : places) join_in_word(key, result, word);
    pairs_.erase(key);
  }

 private:
  struct Word {
    std::size_t begin;  // in symbols_
    std::size_t size;
    std::int64_t count;
  };

  void count_pairs(std::uint32_t index) {
    const Word& word = words_[index];
    for (std::size_t i = word.begin; i + 1 < word.begin + word.size; ++i) {
      add(symbols_[i], symbols_[i + 1], index);
    }
  }

  void join_in_word(Pair pair, std::int32_t result, std::uint32_t index) {
    const std::int32_t left = left_of(pair);
    const std::int32_t right = right_of(pair);
    Word& word = words_[index];
    std::int32_t* const symbols = symbols_.data() + word.begin;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < word.size; ++i) {
      const bool found = symbols[i] == left && i + 1 < word.size && symbols[i + 1] == right;
      if (!found) {
        symbols[kept++] = symbols[i];
        continue;
      }
      ++i;
      if (kept > 0) replace(symbols[kept - 1], left, symbols[kept - 1], result, index);
      if (i + 1 < word.size) replace(right, symbols[i + 1], result, symbols[i + 1], index);
      symbols[kept++] = result;
    }
    word.size = kept;
  }

  void replace(std::int32_t old_left, std::int32_t old_right, std::int32_t left, std::int32_t right,
               std::uint32_t word) {
    pairs_[make_pair_of(old_left, old_right)].count -= words_[word].count;
    add(left, right, word);
  }

  void add(std::int32_t left, std::int32_t right, std::uint32_t word) {
    PairEntry& entry = *pairs_.try_emplace(make_pair_of(left, right)).first;
    PairState& state = entry.second;
    state.count += words_[word].count;
    if (state.words.empty() || state.words.back() != word) state.words.push_back(word);
    if (!state.grew) grown_.push_back(&entry);
    state.grew = true;
  }

  std::vector<std::int32_t> symbols_;
  std::vector<Word> words_;
  std::unordered_map<Pair, PairState> pairs_;
  std::vector<PairEntry*> grown_;
};

// A pair with the count that it had when it was queued: it may have fallen since.
struct Candidate {
  std::int64_t count;
  Pair pair;
  Corpus::PairEntry* entry;

  bool operator<(const Candidate& other) const {
    return std::tie(count, other.pair) < std::tie(other.count, pair);
  }
};

class Learner {
 public:
  Learner(std::span<const WordCount> words, const std::vector<std::string>& special_tokens)
      : tokens_(special_tokens), corpus_(words, tokens_) {
    queue_grown();
  }

  void run(std::int64_t vocab_size, const std::function<void(std::int64_t)>& report) {
    while (tokens_.size() < vocab_size && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      if (top.count != top.entry->second.count) {
        queue(*top.entry);
        continue;
      }
      const std::int32_t result = tokens_.id_of_union(top.pair);
      merges_.push_back({left_of(top.pair), right_of(top.pair), result});
      corpus_.join(*top.entry, result);
      queue_grown();
      report(tokens_.size());
    }
  }

  LearnedBpe take() { return {tokens_.take(), std::move(merges_)}; }

 private:
  void queue_grown() {
    for (Corpus::PairEntry* const entry : corpus_.take_grown()) queue(*entry);
  }
  void queue(Corpus::PairEntry& entry) {
    if (entry.second.count > 0) queue_.push({entry.second.count, entry.first, &entry});
  }

  TokenTable tokens_;
  Corpus corpus_;
  std::priority_queue<Candidate> queue_;
  std::vector<BpeMerge> merges_;
};

}  // namespace

LearnedBpe learn_bpe(std::span<const WordCount> words, std::int64_t vocab_size,
                     const std::vector<std::string>& special_tokens,
                     const std::function<void(std::int64_t)>& report) {
  Learner learner(words, special_tokens);
  learner.run(vocab_size, report);
  return learner.take();
}

}  // namespace flywheel
