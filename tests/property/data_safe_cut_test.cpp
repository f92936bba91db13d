#include "data/safe_cut.h"

#include <iostream>
#include <random>

#include "core/file_io.h"
#include "data/tokenizer.h"
#include "support/catch.h"
#include "support/test_data.h"

using namespace flywheel;

namespace {

using Ids = std::vector<std::int32_t>;

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

// Cuts the text at every safe place from its end to its start, checking each cut alone.
void check_cuts(const Tokenizer& tokenizer, const std::string& text) {
  const Ids whole = encode(tokenizer, text);
  std::string_view first = text;
  while (const std::size_t cut = find_safe_cut(first, 0)) {
    first = first.substr(0, cut);
    Ids ids = encode(tokenizer, first);
    const Ids rest = encode(tokenizer, std::string_view(text).substr(cut));
    ids.insert(ids.end(), rest.begin(), rest.end());
    INFO("cut at " << cut << " of: " << text);
    REQUIRE(ids == whole);
  }
}

const std::string kParts[] = {"word",
                              "It's",
                              "a",
                              "Z",
                              " ",
                              " ",
                              "  ",
                              "\n",
                              "\n",
                              "\n\n",
                              "\r\n",
                              "\t",
                              "7",
                              "1234",
                              ".",
                              ",\"",
                              "'s",
                              "'",
                              "/",
                              "-",
                              "_",
                              "\xC2\xA0",
                              "\xE3\x80\x80",
                              "\xE3\x80\x82",
                              "\xE4\xBD\xA0",
                              "e\xCC\x81",
                              "\xCC\x81",
                              "\xF0\x9F\x98\x80",
                              "\xE2\x80\x9D",
                              "\xE2\x80\xA8",
                              "\xD0\x96",
                              "\x80",
                              "\xE4\xBD",
                              "{}"};

}  // namespace

TEST_CASE("text cut at safe places gets the ids of the whole", "[data]") {
  for (const char* name : {"tokenizers/gpt2", "tokenizers/qwen3"}) {
    const auto path = test::real_data(name);
    if (!path) {
      std::cout << "skipped: no " << name << "\n";
      continue;
    }
    const auto tokenizer = Tokenizer::load(path->string());
    for (unsigned seed = 0; seed < 3000; ++seed) {
      std::mt19937 random(seed);
      std::string text;
      for (std::size_t i = 5 + random() % 40; i > 0; --i)
        text += kParts[random() % std::size(kParts)];
      INFO(name << " seed " << seed);
      check_cuts(*tokenizer, text);
    }
  }
}

TEST_CASE("real text cut at safe places gets the ids of the whole", "[data]") {
  const auto tokenizer_path = test::real_data("tokenizers/gpt2");
  const auto text_path = test::real_data("text/novels/alices-adventures-in-wonderland.txt");
  if (!tokenizer_path || !text_path) {
    std::cout << "skipped: no real data\n";
    return;
  }
  const auto tokenizer = Tokenizer::load(tokenizer_path->string());
  const std::string text = read_text_file(*text_path);
  const Ids whole = encode(*tokenizer, text);
  Ids pieces;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t cut = find_safe_cut(rest.substr(0, 200), 0);
    const std::string_view piece = rest.substr(0, cut == 0 ? rest.size() : cut);
    tokenizer->encode(piece, pieces);
    rest.remove_prefix(piece.size());
  }
  REQUIRE((pieces == whole));
}
