#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/char_class.h"
#include "data/pattern_scanner.h"
#include "data/pretokenizer.h"
#include "data/utf8.h"
#include "support/catch.h"
#include "unit/data_tokenizer_helpers.h"

using namespace flywheel;

namespace {

class Collector : public PieceSink {
 public:
  void piece(std::string_view text) override { pieces.emplace_back(text); }
  std::vector<std::string> pieces;
};

std::vector<std::string> pieces_of(const PreTokenizer& step, std::string_view text) {
  Collector collector;
  if (!text.empty()) step.split(text, collector);
  return collector.pieces;
}

// A hand-written scanner and PCRE2 on the same pattern.
struct Pair {
  explicit Pair(std::string_view pattern)
      : scanner(make_split(pattern, SplitBehavior::Isolated, false, "test")),
        regex(make_regex_split(pattern, SplitBehavior::Isolated, false, "test")) {}
  PreTokenizerPtr scanner, regex;
};

std::vector<Pair> pairs() {
  std::vector<Pair> all;
  for (const std::string_view pattern : {kGpt2Pattern, kQwenPattern, kLlama3Pattern}) {
    all.emplace_back(pattern);
  }
  return all;
}

char32_t random_code_point(std::mt19937_64& random) {
  static const std::u32string kDifficult =
      U" \t\n\r\u000B\u000C\u00A0\u3000\u2003\u0085\u2028\u180E\u200B''''sStTmMdDrReEvVlL\u017F"
      U"aB\u00E9\u0416\u4E00\u02B0\u01C51\u0664\u00B2\u00BD\u2167\u3007\u0301\u093F\u20DD!?.-_"
      U"\u2019\u20AC\u200D\uFE0F\uFFFD\U0001F600\U0001F3FD\U00020000\U0001D7D8\U00031350";
  switch (random() % 4) {
    case 0:
      return static_cast<char32_t>(random() % 0x80);
    case 1: {
      const auto c = static_cast<char32_t>(random() % 0x110000);
      return c >= 0xD800 && c < 0xE000 ? U'x' : c;
    }
    default:
      return kDifficult[random() % kDifficult.size()];
  }
}

std::string random_text(std::mt19937_64& random) {
  std::string text;
  const std::size_t size = random() % 24;
  for (std::size_t i = 0; i < size; ++i) {
    const char32_t c = random_code_point(random);
    const std::size_t repeats = random() % 5 == 0 ? 1 + random() % 4 : 1;
    for (std::size_t j = 0; j < repeats; ++j) append_utf8(text, c);
  }
  return text;
}

}  // namespace

TEST_CASE("Scanners cut random difficult text as PCRE2 does") {
  const std::vector<Pair> all = pairs();
  std::mt19937_64 random(1);
  for (int i = 0; i < 30000; ++i) {
    const std::string text = random_text(random);
    for (std::size_t p = 0; p < all.size(); ++p) {
      const auto expected = pieces_of(*all[p].regex, text);
      if (pieces_of(*all[p].scanner, text) == expected) continue;
      CAPTURE(i, p, test::escaped(text));
      CHECK(pieces_of(*all[p].scanner, text) == expected);
    }
  }
}

TEST_CASE("Scanners and PCRE2 agree on every character that has a class") {
  const std::vector<Pair> all = pairs();
  int different = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    // Of the others, which are most of the upper planes, a sample is enough.
    if ((c >= 0xD800 && c < 0xE000) || (char_classes()[c] == 0 && c % 61 != 0)) continue;
    if (c > 0x3400 && c % 7 != 0) continue;
    std::string text = "a";
    for (const char* tail : {"1", " ", "a", "\n", "."}) {
      append_utf8(text, c);
      text += tail;
    }
    for (const Pair& pair : all) {
      different += pieces_of(*pair.scanner, text) != pieces_of(*pair.regex, text);
    }
  }
  CHECK(different == 0);
}

TEST_CASE("Whitespace is Unicode's White_Space, unlike PCRE2's") {
  int count = 0;
  for (int c = 0; c < 0x110000; ++c) count += (char_classes()[c] & kSpace) != 0;
  CHECK(count == 25);
  CHECK((char_classes()[0x180E] & kSpace) == 0);
}

TEST_CASE("A pattern that explodes ends with an error") {
  const auto step = make_split(R"((?:(?:a|aa)+)+\z)", SplitBehavior::Isolated, false, "here");
  const std::string text = std::string(64, 'a') + "b";
  Collector collector;
  try {
    step->split(text, collector);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Data);
    CHECK(std::string(error.what()).find("here: the pattern fails on a text of 65 bytes") == 0);
  }
}

TEST_CASE("Patterns whose meaning differs between the dialects are refused by name") {
  for (const char* pattern : {"[[:alpha:]]", "[a&&b]", "a{2}+", "a{2}?", "a(?i)b", "(*ACCEPT)",
                              R"(\X)", R"([\W])", R"(\xE9)", R"(\1(a))", R"(\pL)", "(?<name>a)",
                              "(?s:.)", "[a", "a\\", "(", "(?", R"(\p{L)"}) {
    CAPTURE(pattern);
    try {
      make_split(pattern, SplitBehavior::Isolated, false, "here");
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Data);
      CHECK(std::string(error.what()).find("here: ") == 0);
    }
  }
}
