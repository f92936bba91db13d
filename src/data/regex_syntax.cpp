#include "data/regex_syntax.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <utility>

#include "core/error.h"
#include "data/char_class.h"

namespace flywheel {

namespace {

constexpr std::string_view kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside of classes, Oniguruma's \w also takes the six numbers of Latin-1 that are not digits.
constexpr std::string_view kLatin1Numbers = R"(\xB2\xB3\xB9\xBC-\xBE)";
constexpr std::string_view kHexSet = "0-9a-fA-F";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      switch (pattern_[at_]) {
        case '\\':
          escape(false);
          break;
        case '[':
          char_class();
          break;
        case '(':
          group();
          break;
        case '{':
          interval();
          break;
        default:
          result_ += pattern_[at_++];
      }
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorKind::Data, "{}: {} at byte {} of the pattern '{}' is not supported", where_, what,
         at_, pattern_.substr(0, 200));
  }

  char peek(std::size_t ahead) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }

  void put(std::string_view text, std::size_t consumed) {
    result_ += text;
    at_ += consumed;
  }

  void put_set(std::string_view set, bool negated, bool in_class) {
    if (in_class && negated) refuse("a negated shorthand inside a class");
    if (!in_class) result_ += negated ? "[^" : "[";
    result_ += set;
    if (!in_class) result_ += ']';
    at_ += 2;
  }

  void escape(bool in_class) {
    const char c = peek(1);
    switch (c) {
      case 's':
        return put(R"(\p{White_Space})", 2);
      case 'S':
        return put(R"(\P{White_Space})", 2);
      case 'd':
        return put(R"(\p{Nd})", 2);
      case 'D':
        return put(R"(\P{Nd})", 2);
      case 'w':
      case 'W':
        return put_set(in_class ? std::string(kWordSet) : outer_word_set(), c == 'W', in_class);
      case 'h':
      case 'H':
        return put_set(kHexSet, c == 'H', in_class);
      case 'v':
        return put(R"(\x0B)", 2);
      case 'b':
        return put(in_class ? R"(\x08)" : word_boundary("!", "="), 2);
      case 'B':
        if (!in_class) return put(word_boundary("=", "!"), 2);
        break;
      case 'p':
      case 'P':
        return property(in_class);
      case 'x':
        return hexadecimal();
      case 'u':
        return four_digits();
      case 't':
      case 'n':
      case 'r':
      case 'f':
      case 'a':
      case 'e':
        return put(pattern_.substr(at_, 2), 2);
      case 'A':
      case 'z':
      case 'Z':
        if (!in_class) return put(pattern_.substr(at_, 2), 2);
        break;
      default:
        if (c != '\0' && !is_letter(c) && !is_digit(c)) return put(pattern_.substr(at_, 2), 2);
    }
    refuse("this escape");
  }

  static std::string outer_word_set() { return fmt::format("{}{}", kWordSet, kLatin1Numbers); }

  // Behind a word character `after_word` one may follow, "=" or "!"; behind another `after_other`.
  static std::string word_boundary(std::string_view after_word, std::string_view after_other) {
    return fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", outer_word_set(),
                       after_word, after_other);
  }

  // \p{L} and \p{N} take the characters along that PCRE2's tables may lack.
  void property(bool in_class) {
    if (peek(2) != '{') refuse("\\p without braces");
    const std::string_view name = pattern_.substr(at_ + 1, 4);
    const bool is_letter_set = name.substr(1) == "{L}";
    const bool negated = name.front() == 'P';
    if (!(is_letter_set || name.substr(1) == "{N}") || (negated && in_class)) {
      put(pattern_.substr(at_, 2), 2);
      return copy_braces();
    }
    const std::string set =
        fmt::format("\\p{}{}", name.substr(1),
                    is_letter_set ? recent(recent_letters()) : recent(recent_numbers()));
    put(in_class ? set : fmt::format("[{}{}]", negated ? "^" : "", set), 5);
  }

  static std::string recent(std::span<const CodePointRange> ranges) {
    std::string set;
    for (const CodePointRange range : ranges) {
      set += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", range.first, range.last);
    }
    return set;
  }

  void copy_braces() {
    const std::size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) refuse("an open brace");
    put(pattern_.substr(at_, close + 1 - at_), close + 1 - at_);
  }

  void hexadecimal() {
    if (peek(2) == '{') {
      put(R"(\x)", 2);
      return copy_braces();
    }
    // Oniguruma reads larger values as single bytes of UTF-8.
    if (peek(2) < '0' || peek(2) > '7' || !is_hex(peek(3))) refuse("\\x above 7F");
    put(pattern_.substr(at_, 4), 4);
  }

  void four_digits() {
    for (std::size_t i = 2; i < 6; ++i) {
      if (!is_hex(peek(i))) refuse("\\u without four digits");
    }
    result_ += R"(\x{)";
    result_ += pattern_.substr(at_ + 2, 4);
    put("}", 6);
  }

  void char_class() {
    put("[", 1);
    if (peek(0) == '^') put("^", 1);
    if (peek(0) == ']') put(R"(\])", 1);
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == ']') return put("]", 1);
      if (c == '[') refuse("a class inside a class");
      if (c == '&' && peek(1) == '&') refuse("an intersection of classes");
      if (c == '\\') {
        escape(true);
      } else {
        put(pattern_.substr(at_, 1), 1);
      }
    }
    refuse("an open class");
  }

  void group() {
    if (peek(1) == '*') refuse("a verb");
    if (peek(1) != '?') return put("(", 1);
    const char kind = peek(2);
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>') {
      return put(pattern_.substr(at_, 3), 3);
    }
    if (kind == '<' && (peek(3) == '=' || peek(3) == '!')) return put(pattern_.substr(at_, 4), 4);
    flags();
  }

  // "(?i:", "(?m-i:", and "(?i)" where the pattern begins: elsewhere the dialects scope it
  // differently.
  void flags() {
    const bool first = at_ == 0;
    std::string translated = "(?";
    std::size_t i = 2;
    for (; peek(i) == 'i' || peek(i) == 'm' || peek(i) == 'x' || peek(i) == '-'; ++i) {
      translated += peek(i) == 'm' ? 's' : peek(i);
    }
    if (i == 2 || (peek(i) != ':' && !(peek(i) == ')' && first))) refuse("this group");
    translated += peek(i);
    put(translated, i + 1);
  }

  void interval() {
    std::size_t i = 1;
    while (is_digit(peek(i))) ++i;
    const bool has_minimum = i > 1;
    const bool has_comma = peek(i) == ',';
    if (has_comma) ++i;
    const std::size_t maximum = i;
    while (is_digit(peek(i))) ++i;
    if (peek(i) != '}' || (!has_minimum && i == maximum)) return put(R"(\{)", 1);
    const char after = peek(i + 1);
    if (after == '+' || (after == '?' && !has_comma)) refuse("a quantifier after {n}");
    result_ += has_minimum ? "{" : "{0";
    at_ += 1;
    put(pattern_.substr(at_, i), i);
  }

  std::string_view pattern_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string result_;
};

}  // namespace

std::string pcre2_pattern(std::string_view oniguruma_pattern, const std::string& where) {
  return Translator(oniguruma_pattern, where).run();
}

std::string escaped_pattern(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool plain = is_letter(c) || is_digit(c) || (c & 0x80) != 0 || c < 0x21;
    if (!plain) result += '\\';
    result += c;
  }
  return result;
}

}  // namespace flywheel
