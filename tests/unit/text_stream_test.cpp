#include "infer/text_stream.h"

#include "core/philox.h"
#include "data/utf8.h"
#include "support/catch.h"

namespace flywheel {
namespace {

struct Streamed {
  std::string text;
  bool stopped;
  bool operator==(const Streamed&) const = default;
};

// Feeds `bytes` in random pieces; every piece of text that comes must be whole characters.
Streamed stream(const std::string& bytes, const std::vector<std::string>& stops,
                std::uint64_t seed) {
  const RandomSequence random(seed, RandomStream::kCorpus);
  TextStream stream(stops);
  std::string text;
  std::uint64_t draws = 0;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const std::size_t size = seed == 0 ? bytes.size() : 1 + random.below(draws++, 4);
    const std::string more = stream.add(bytes.substr(begin, size));
    REQUIRE(valid_utf8_prefix(more) == more.size());
    text += more;
    begin += size;
  }
  text += stream.finish();
  return {text, stream.stopped()};
}

TEST_CASE("characters come whole, and at once when they are") {
  TextStream stream;
  CHECK(stream.add("a\xC3") == "a");
  CHECK(stream.add("\xA4") == "\u00E4");
  CHECK(stream.add("\xF0\x9F") == "");
  CHECK(stream.add("\x98") == "");
  CHECK(stream.add("\x80!") == "\U0001F600!");
  CHECK(stream.finish() == "");
}

TEST_CASE("ill-formed bytes become U+FFFD as soon as that is certain") {
  TextStream stream;
  CHECK(stream.add("\xFF") == "\uFFFD");            // never begins a character
  CHECK(stream.add("\xE2\x82") == "");              // may become one
  CHECK(stream.add("x") == "\uFFFDx");              // did not: one maximal part
  CHECK(stream.add("\xED\xA0") == "\uFFFD\uFFFD");  // a surrogate: no byte completes it
  CHECK(stream.add("\xF0\x9F\x98") == "");
  CHECK(stream.finish() == "\uFFFD");
}

TEST_CASE("a stop string ends the text, wherever the tokens are cut") {
  TextStream stream({"END", "\n\n"});
  CHECK(stream.add("one E") == "one ");
  CHECK(stream.add("N") == "");
  CHECK(stream.add("x\n") == "ENx");
  CHECK_FALSE(stream.stopped());
  CHECK(stream.add("y\n\nz END") == "\ny");
  CHECK(stream.stopped());
  CHECK(stream.add("more") == "");
  CHECK(stream.finish() == "");
}

TEST_CASE("what is held back comes at the end, and the first stop string to be complete counts") {
  TextStream held({"abc"});
  CHECK(held.add("xab") == "x");
  CHECK(held.finish() == "ab");
  CHECK(stream("x aab b", {"aab b", "ab"}, 0) == Streamed{"x a", true});
  CHECK(stream("x abc", {"bc", "abc"}, 0) == Streamed{"x ", true});
  CHECK(stream("", {""}, 0) == Streamed{"", false});
}

TEST_CASE("text and stop do not depend on where the bytes are cut") {
  const std::vector<std::string> pieces{"a",    "b",        "ab", "\u00E4", "\U0001F600",
                                        "\xFF", "\xE2\x82", "\n", "aab",    "\xF0\x9F"};
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    const RandomSequence random(seed, RandomStream::kSampling);
    std::string bytes;
    for (std::uint64_t i = 0; i < 12; ++i) bytes += pieces[random.below(i, pieces.size())];
    const std::vector<std::string> stops{"aabb", "\u00E4b", "\n\n", "b\U0001F600", "\uFFFDa"};
    CAPTURE(seed);
    REQUIRE(stream(bytes, stops, seed) == stream(bytes, stops, 0));
    REQUIRE(stream(bytes, {}, seed).text == replace_invalid_utf8(bytes));
  }
}

}  // namespace
}  // namespace flywheel
