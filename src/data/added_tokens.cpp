#include "data/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "data/char_class.h"
#include "data/utf8.h"

namespace flywheel {

namespace {

bool is_class(char32_t code_point, std::uint8_t wanted) {
  return (char_classes()[code_point] & wanted) != 0;
}

bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) {
  const bool joined_before =
      begin > 0 && is_class(decode_utf8_before(text.data() + begin).code_point, kWord);
  const bool joined_after =
      end < text.size() && is_class(decode_utf8(text.data() + end).code_point, kWord);
  return !joined_before && !joined_after;
}

std::size_t before_spaces(std::string_view text, std::size_t end, std::size_t floor) {
  while (end > floor) {
    const DecodedChar c = decode_utf8_before(text.data() + end);
    if (!is_class(c.code_point, kSpace)) break;
    end -= static_cast<std::size_t>(c.length);
  }
  return end;
}

std::size_t after_spaces(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const DecodedChar c = decode_utf8(text.data() + begin);
    if (!is_class(c.code_point, kSpace)) break;
    begin += static_cast<std::size_t>(c.length);
  }
  return begin;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder() : token_at_node_(1, -1) {}

void AddedTokenFinder::add(const AddedToken& token, std::string_view pattern) {
  const auto first = static_cast<unsigned char>(pattern.front());
  only_first_byte_ = tokens_.empty() || only_first_byte_ == first ? first : -1;
  begins_token_[first] = true;
  int node = 0;
  for (const char byte : pattern) {
    const std::uint64_t key =
        static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
    const auto [position, is_new] =
        children_.try_emplace(key, static_cast<int>(token_at_node_.size()));
    if (is_new) token_at_node_.push_back(-1);
    node = position->second;
  }
  int& slot = token_at_node_[static_cast<std::size_t>(node)];
  if (slot < 0) slot = static_cast<int>(tokens_.size());
  tokens_.push_back(token);
}

int AddedTokenFinder::child(int node, char byte) const {
  const auto found =
      children_.find(static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(byte));
  return found == children_.end() ? -1 : found->second;
}

// The match with the smallest begin and, there, the largest end; token -1 if there is none.
AddedTokenFinder::Match AddedTokenFinder::next_match(std::string_view text,
                                                     std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (only_first_byte_ >= 0) {
      const void* const found =
          std::memchr(text.data() + begin, only_first_byte_, text.size() - begin);
      if (!found) break;
      begin = static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
    }
    if (!begins_token_[static_cast<unsigned char>(text[begin])]) continue;
    Match best{begin, begin, -1};
    int node = 0;
    for (std::size_t at = begin; at < text.size() && (node = child(node, text[at])) >= 0; ++at) {
      const int token = token_at_node_[static_cast<std::size_t>(node)];
      if (token >= 0) best = {begin, at + 1, token};
    }
    if (best.token >= 0) return best;
  }
  return {text.size(), text.size(), -1};
}

void AddedTokenFinder::find(std::string_view text, std::vector<AddedTokenSpan>& spans) const {
  std::size_t covered = 0;
  std::size_t from = 0;
  while (!tokens_.empty()) {
    const Match match = next_match(text, from);
    if (match.token < 0) break;
    from = match.end;
    const AddedToken& token = tokens_[static_cast<std::size_t>(match.token)];
    if (token.single_word && !is_single_word(text, match.begin, match.end)) continue;
    const std::size_t begin = token.lstrip
                                  ? before_spaces(text, match.begin, std::min(covered, match.begin))
                                  : match.begin;
    const std::size_t end = token.rstrip ? after_spaces(text, match.end) : match.end;
    if (covered < begin) spans.push_back({covered, begin, -1});
    spans.push_back({begin, end, token.id});
    covered = end;
  }
  if (covered < text.size()) spans.push_back({covered, text.size(), -1});
}

}  // namespace flywheel
