#include "data/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "core/file_io.h"
#include "data/bpe_train_job.h"
#include "data_tokenizer_helpers.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"

using namespace flywheel;
using test::contains;
using test::error_of;

namespace {

namespace fs = std::filesystem;
using Merges = std::vector<std::string>;  // "left right"

Merges merges_of(const LearnedBpe& learned) {
  Merges merges;
  for (const BpeMerge& merge : learned.merges) {
    const auto text = [&](std::int32_t id) { return learned.tokens.at(std::size_t(id)); };
    REQUIRE(text(merge.result) == text(merge.left) + text(merge.right));
    merges.push_back(text(merge.left) + " " + text(merge.right));
  }
  return merges;
}

LearnedBpe learn(const std::vector<WordCount>& words, std::int64_t vocab_size) {
  return learn_bpe(words, vocab_size, {"<s>"}, [](std::int64_t) {});
}

// The same by counting all pairs of all words before each merge.
class RecountingTrainer {
 public:
  RecountingTrainer(const std::vector<WordCount>& words, const LearnedBpe& alphabet) {
    for (std::int32_t id = 0; id < 257; ++id) id_of(alphabet.tokens.at(std::size_t(id)));
    for (const WordCount& word : words) {
      std::vector<std::int32_t> symbols;
      for (const char byte : word.word) symbols.push_back(ids_.at(std::string(1, byte)));
      words_.push_back(symbols);
      counts_.push_back(word.count);
    }
  }

  Merges run(std::size_t vocab_size) {
    Merges merges;
    while (tokens_.size() < vocab_size) {
      std::map<Pair, std::int64_t> pairs = count();
      const auto best =
          std::max_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
            return a.second < b.second;  // of equals, the first: the smallest pair
          });
      if (best == pairs.end()) break;
      join(best->first);
      merges.push_back(text(best->first.first) + " " + text(best->first.second));
    }
    return merges;
  }

 private:
  using Pair = std::pair<std::int32_t, std::int32_t>;

  const std::string& text(std::int32_t id) const { return tokens_.at(std::size_t(id)); }

  std::int32_t id_of(const std::string& token) {
    const auto [place, is_new] = ids_.try_emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(token);
    return place->second;
  }

  std::map<Pair, std::int64_t> count() const {
    std::map<Pair, std::int64_t> pairs;
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::size_t i = 1; i < words_[w].size(); ++i) {
        pairs[{words_[w][i - 1], words_[w][i]}] += counts_[w];
      }
    }
    return pairs;
  }

  void join(Pair pair) {
    const std::int32_t result = id_of(text(pair.first) + text(pair.second));
    for (std::vector<std::int32_t>& symbols : words_) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        if (Pair(symbols[i], symbols[i + 1]) != pair) continue;
        symbols[i] = result;
        symbols.erase(symbols.begin() + std::ptrdiff_t(i) + 1);
      }
    }
  }

  std::vector<std::string> tokens_;
  std::map<std::string, std::int32_t> ids_;
  std::vector<std::vector<std::int32_t>> words_;
  std::vector<std::int64_t> counts_;
};

std::vector<WordCount> random_words(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  const std::uint64_t letters = 1 + below(5);
  std::map<std::string, std::int64_t> words;
  for (std::uint64_t i = 1 + below(60); i > 0; --i) {
    std::string word;
    for (std::uint64_t size = 1 + below(12); size > 0; --size) word += char('a' + below(letters));
    words[word] += std::int64_t(1 + below(4));
  }
  std::vector<WordCount> result;
  for (const auto& [word, count] : words) result.push_back({word, count});
  return result;
}

struct Setup {
  test::TemporaryFolder folder;
  BpeTrainConfig config;

  explicit Setup(const std::string& text, const std::string& name = "in.txt") {
    write_file_atomically(folder.path() / name, text);
    config.inputs = {(folder.path() / name).string()};
    config.output = folder.path() / "out/tokenizer.json";
    config.vocab_size = 300;
    config.threads = 1;
  }
  BpeTrainSummary run() const {
    return train_bpe(config, [](const auto&) {});
  }
  std::string written() const { return read_text_file(config.output); }
  Merges merges() const { return nlohmann::json::parse(written())["model"]["merges"]; }
};

}  // namespace

TEST_CASE("the most frequent pair is joined first", "[bpe_trainer]") {
  Setup setup("ab ab ab abc");  // "ab", 2 " ab", " abc"
  const BpeTrainSummary summary = setup.run();
  REQUIRE(setup.merges() == Merges{"a b", "Ġ ab", "Ġab c"});
  REQUIRE(summary.tokens == 260);  // every word is one token
  REQUIRE(summary.merges == 3);
  REQUIRE(summary.words == 3);
  setup.config.vocab_size = 259;
  REQUIRE(setup.run().tokens == 259);
  REQUIRE(setup.merges() == Merges{"a b", "Ġ ab"});
}

TEST_CASE("of equally frequent pairs the smallest is joined first", "[bpe_trainer]") {
  const Setup setup("xy cd");
  setup.run();
  REQUIRE(setup.merges() == Merges{"c d", "x y", "Ġ cd"});
}

TEST_CASE("runs of one token are joined from the left", "[bpe_trainer]") {
  REQUIRE(merges_of(learn({{"aaaaa", 1}}, 300)) == Merges{"a a", "aa a", "aa aaa"});
}

TEST_CASE("ids begin with the special tokens and the bytes' letters in order", "[bpe_trainer]") {
  const LearnedBpe learned = learn({{"ab", 1}}, 300);
  REQUIRE(learned.tokens.size() == 258);
  REQUIRE(learned.tokens[0] == "<s>");
  REQUIRE(learned.tokens[1] == "!");
  REQUIRE(learned.tokens[256] == "\xC5\x83");  // U+0143, of byte 0xAD
  REQUIRE(learned.tokens[257] == "ab");
}

TEST_CASE("incremental counts give what recounting gives", "[bpe_trainer]") {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const std::vector<WordCount> words = random_words(seed);
    const std::size_t vocab_size = 257 + seed % 60;
    CAPTURE(seed, words.size(), vocab_size);
    const LearnedBpe learned = learn(words, std::int64_t(vocab_size));
    REQUIRE(merges_of(learned) == RecountingTrainer(words, learned).run(vocab_size));
  }
}

TEST_CASE("merges are those of the reference library", "[bpe_trainer]") {
  std::string text;
  for (const std::string& document : test::difficult_texts()) {
    text += (text.empty() ? "" : "\n") + document;
  }
  Setup setup(text);
  setup.config.vocab_size = 1000;
  setup.run();
  const Merges expected = test::golden_lines("trained.merges");
  REQUIRE(expected.size() >= 743);
  REQUIRE(setup.merges() == expected);
}

TEST_CASE("the file does not depend on the number of threads", "[bpe_trainer]") {
  std::mt19937_64 random(7);
  std::string text;
  while (text.size() < (5u << 20)) {
    for (std::uint64_t size = 1 + random() % 4; size > 0; --size) text += char('a' + random() % 20);
    text += random() % 9 == 0 ? '\n' : ' ';
  }
  Setup setup(text);
  setup.run();
  const std::string expected = setup.written();
  for (const int threads : {2, 5}) {
    setup.config.threads = threads;
    setup.run();
    REQUIRE((setup.written() == expected));
  }
}

TEST_CASE("a trained tokenizer loads and gives the text back", "[bpe_trainer]") {
  const std::string text =
      "the cat<|end|>the hat\n\xF0\x9F\x98\x80 \xE4\xBD\xA0\xE5\xA5\xBD the <|x,y|>";
  Setup setup(text);
  setup.config.special_tokens = {"<|end|>", "<|x,y|>"};
  SECTION("split as GPT-2 does") {}
  SECTION("split and normalized as another tokenizer does") {
    setup.config.pretokenizer = test::golden("tokenizers/qwen_style/tokenizer.json").string();
    setup.run();
    const auto json = nlohmann::json::parse(setup.written());
    REQUIRE(json["normalizer"]["type"] == "NFC");
    REQUIRE(json["pre_tokenizer"]["type"] == "Sequence");
  }
  setup.run();
  for (const std::string& merge : setup.merges()) REQUIRE_FALSE(contains(merge, "<|"));
  const auto tokenizer = Tokenizer::load(setup.config.output.string());
  const test::Ids ids = test::encode(*tokenizer, text);
  REQUIRE(tokenizer->decode(ids) == text);
  REQUIRE(std::count(ids.begin(), ids.end(), 0) == 1);
  REQUIRE(ids.back() == 1);
}

TEST_CASE("faults of training are told in one line", "[bpe_trainer]") {
  Setup setup("some text");
  const auto error = [&] { return error_of([&] { setup.run(); }); };
  SECTION("vocabulary too small") {
    setup.config.vocab_size = 256;
    REQUIRE(error() ==
            "config: vocabulary of 256 tokens; expected 257 (256 bytes and 1 special) to "
            "16777216");
  }
  SECTION("no input") {
    setup.config.inputs.clear();
    REQUIRE(contains(error(), "no input"));
  }
  SECTION("no text") {
    write_file_atomically(setup.config.inputs[0], "");
    REQUIRE(contains(error(), "no text in the input"));
  }
  SECTION("missing file") {
    setup.config.inputs = {"missing.txt"};
    REQUIRE(contains(error(), "missing.txt"));
  }
  SECTION("special tokens") {
    setup.config.special_tokens = {"<s>", "<s>"};
    REQUIRE(contains(error(), "special tokens must differ"));
    setup.config.special_tokens = {"\xFF"};
    REQUIRE(contains(error(), "expected UTF-8"));
  }
  SECTION("output is a folder") {
    setup.config.output = setup.folder.path();
    REQUIRE(contains(error(), "is a folder"));
  }
  SECTION("unknown pre-tokenizer") {
    setup.config.pretokenizer = "gpt5";
    REQUIRE(contains(error(), "gpt5: no pre-tokenizer; expected 'gpt2' or a tokenizer.json"));
  }
  REQUIRE_FALSE(fs::is_regular_file(setup.config.output));
}
