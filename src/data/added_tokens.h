#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/normalizer.h"

namespace flywheel {

// A token that is cut out of the text before anything else.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the whitespace before it along
  bool rstrip = false;       // and after it
  bool normalized = false;   // looked for in the normalized text, not in the raw one
  bool special = false;
};

// A stretch of text and the added token that it is; -1 for ordinary text.
struct AddedTokenSpan {
  std::size_t begin, end;
  std::int32_t id;
};

// Finds added tokens as the reference library does: leftmost, then longest; a match that
// single_word rejects is skipped over whole.
class AddedTokenFinder {
 public:
  AddedTokenFinder();
  // `pattern` (not empty) is the token's content as it stands in the text. The first of equal
  // patterns counts.
  void add(const AddedToken& token, std::string_view pattern);
  bool empty() const { return tokens_.empty(); }
  // Spans of `text` in order; together they cover it, but a token that begins with whitespace can
  // overlap one with rstrip before it.
  void find(std::string_view text, std::vector<AddedTokenSpan>& spans) const;

 private:
  struct Match {
    std::size_t begin, end;
    int token;
  };
  Match next_match(std::string_view text, std::size_t from) const;
  int child(int node, char byte) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> begins_token_{};
  int only_first_byte_ = -1;                         // if all tokens begin alike
  std::unordered_map<std::uint64_t, int> children_;  // node << 8 | byte
  std::vector<int> token_at_node_;                   // -1: none ends there
};

}  // namespace flywheel
