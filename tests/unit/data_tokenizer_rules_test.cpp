#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/file_io.h"
#include "data/byte_level.h"
#include "data/normalizer.h"
#include "data/utf8.h"
#include "support/catch.h"
#include "unit/data_tokenizer_helpers.h"

using namespace flywheel;
using test::encode;
using test::Ids;

namespace {

constexpr const char* kStyles[] = {"gpt2_style", "qwen_style", "smollm2_style", "llama3_style",
                                   "features"};

nlohmann::json golden_json(const std::string& style) {
  return nlohmann::json::parse(
      read_text_file(test::golden("tokenizers/" + style + "/tokenizer.json")));
}

std::unique_ptr<Tokenizer> load_json(const nlohmann::json& json) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.path() / "tokenizer.json", json.dump());
  return Tokenizer::load(folder.path().string());
}

// Merging by its definition: join the leftmost pair of the earliest merge until there is none.
std::vector<std::string> merge_naively(
    std::string_view word, const std::map<std::pair<std::string, std::string>, int>& ranks) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.push_back(byte_alphabet()[static_cast<unsigned char>(c)]);
  while (true) {
    int best = -1;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found == ranks.end() || (best >= 0 && found->second >= best)) continue;
      best = found->second;
      place = i;
    }
    if (best < 0) return symbols;
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

}  // namespace

TEST_CASE("The byte tokenizer passes all bytes through") {
  const auto tokenizer = Tokenizer::load("byte");
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  const Ids ids = encode(*tokenizer, all + "<|endoftext|>");
  REQUIRE(ids.size() == 256 + 13);
  for (int i = 0; i < 256; ++i) CHECK(ids[static_cast<std::size_t>(i)] == i);
  CHECK(tokenizer->decode(ids) == all + "<|endoftext|>");
  CHECK(tokenizer->vocab_size() == 257);
  CHECK(tokenizer->end_of_document() == 256);
  CHECK(tokenizer->decode(Ids{65, 256, 66, -1, 257}) == "A<|endoftext|>B");
}

TEST_CASE("Encoding appends") {
  const auto tokenizer = test::load_golden_tokenizer("gpt2_style");
  Ids ids = {7};
  tokenizer->encode("a", ids);
  CHECK(ids.size() == 2);
  CHECK(ids[0] == 7);
}

TEST_CASE("Decoding gives back the text where no rule changes it") {
  for (const char* style : {"gpt2_style", "llama3_style"}) {
    const auto tokenizer = test::load_golden_tokenizer(style);
    for (const std::string& text : test::difficult_texts()) {
      CAPTURE(style, test::escaped(text));
      CHECK(tokenizer->decode(encode(*tokenizer, text)) == replace_invalid_utf8(text));
    }
  }
}

TEST_CASE("Decoding a part of a character gives its bytes, unknown ids give none") {
  const auto tokenizer = test::load_golden_tokenizer("gpt2_style");
  const Ids ids = encode(*tokenizer, "\xF0\x9F\xA6\x84");
  REQUIRE(ids.size() > 1);
  std::string text;
  for (const std::int32_t id : ids) text += tokenizer->decode(Ids{id});
  CHECK(text == "\xF0\x9F\xA6\x84");
  CHECK(tokenizer->decode(Ids{ids[0]}).front() == '\xF0');
  CHECK(tokenizer->decode(Ids{-5, 1 << 30, ids[0], 700}) == tokenizer->decode(Ids{ids[0]}));
}

TEST_CASE("Ill-formed UTF-8 becomes U+FFFD once for each maximal part") {
  const std::string r = "\xEF\xBF\xBD";
  CHECK(replace_invalid_utf8("a\xFF"
                             "b") == "a" + r + "b");
  CHECK(replace_invalid_utf8("\xE2\x82") == r);
  CHECK(replace_invalid_utf8("\xE2\x82x") == r + "x");
  CHECK(replace_invalid_utf8("\xF0\x9F\x98\xE2\x82\xAC") == r + "\xE2\x82\xAC");
  CHECK(replace_invalid_utf8("\xC0\x80") == r + r);
  CHECK(replace_invalid_utf8("\xED\xA0\x80") == r + r + r);
  CHECK(replace_invalid_utf8("\xF4\x90\x80\x80") == r + r + r + r);
  CHECK(valid_utf8_prefix("abcdefgh\xC3\xA9\xF4\x8F\xBF\xBF") == 14);
}

TEST_CASE("Merging equals its definition, on long words too") {
  const nlohmann::json json = golden_json("gpt2_style");
  std::map<std::pair<std::string, std::string>, int> ranks;
  for (const auto& merge : json["model"]["merges"]) {
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    const int rank = static_cast<int>(ranks.size());
    ranks[{text.substr(0, space), text.substr(space + 1)}] = rank;
  }
  const auto tokenizer = test::load_golden_tokenizer("gpt2_style");
  std::mt19937_64 random(3);
  const std::string letters = "thertheinandoaess";
  for (int i = 0; i < 300; ++i) {
    std::string word;
    const std::size_t size = 1 + random() % (i % 10 == 0 ? 400 : 40);
    for (std::size_t j = 0; j < size; ++j) word += letters[random() % letters.size()];
    Ids expected;
    for (const std::string& symbol : merge_naively(word, ranks)) {
      expected.push_back(json["model"]["vocab"][symbol].get<std::int32_t>());
    }
    CAPTURE(i, word);
    CHECK(encode(*tokenizer, word) == expected);
  }
}

TEST_CASE("A million letters without a break take no quadratic time") {
  const auto tokenizer = test::load_golden_tokenizer("qwen_style");
  std::string word;
  for (std::size_t i = 0; i < 1000000; ++i) word += "theandst"[(i * i + i / 7) % 8];
  const Ids ids = encode(*tokenizer, word);
  CHECK(tokenizer->decode(ids) == word);
  CHECK(ids.size() < word.size());
}

// Strings and results from the `tokenizers` library.
TEST_CASE("NFC knows the marks of Unicode 9 only, as the reference does") {
  const NormalizerPtr nfc = make_unicode_form(UnicodeForm::Nfc);
  std::string result;
  for (const char* text :
       {"a\u0305\u089B", "a\u089B\u0334", "\U00011935\U00011930", "e\u089B\u0301"}) {
    INFO(test::escaped(text));
    CHECK((!nfc->apply(text, result) || result == text));
  }
  REQUIRE(nfc->apply("e\u0301\u089B\u0334\u0323e\u0301\u1ABF\u0301e\u0301", result));
  CHECK(result == "\u00E9\u089B\u0334\u0323\u00E9\u1ABF\u0301\u00E9");
}

TEST_CASE("NFC of a text equals utf8proc's over the whole") {
  const NormalizerPtr nfc = make_unicode_form(UnicodeForm::Nfc);
  std::mt19937_64 random(5);
  const std::u32string kDifficult =
      U"ae\u0301\u0323\u0308\u00E9\u1100\u1161\u11A8\uAC00\uAC01\u212B\u0344\u0958\u09C7\u09BE"
      U"\u0B47\u0B3E\u1B05\u1B35\u0F71\u0F72\u0F74\u3099\u304B\U000110A5\U000110BA \u0345\u0360";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    const std::size_t size = random() % 12;
    for (std::size_t j = 0; j < size; ++j) {
      auto c = static_cast<char32_t>(random() % 0x7FD);
      if (random() % 3 != 0) c = kDifficult[random() % kDifficult.size()];
      append_utf8(text, c);
    }
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    REQUIRE(length >= 0);
    const std::string expected(reinterpret_cast<const char*>(mapped),
                               static_cast<std::size_t>(length));
    std::free(mapped);
    std::string result = "untouched";
    const bool changed = nfc->apply(text, result);
    CAPTURE(i, test::escaped(text));
    CHECK((changed ? result : text) == expected);
    if (!changed) CHECK(result == "untouched");
  }
}

TEST_CASE("The end of a document is the first telling special token") {
  CHECK(test::load_golden_tokenizer("gpt2_style")->end_of_document() == 0);
  CHECK(test::load_golden_tokenizer("llama3_style")->end_of_document() == 701);
  CHECK(test::load_golden_tokenizer("features")->end_of_document() == 1);
  nlohmann::json json = golden_json("gpt2_style");
  json["added_tokens"][0]["special"] = false;
  CHECK(load_json(json)->end_of_document() == -1);
}

TEST_CASE("save() writes what load() reads") {
  for (const char* style : kStyles) {
    const auto tokenizer = test::load_golden_tokenizer(style);
    const test::TemporaryFolder folder;
    tokenizer->save(folder.path());
    const auto again = Tokenizer::load(folder.path().string());
    CHECK(again->fingerprint() == tokenizer->fingerprint());
    CHECK(again->vocab_size() == tokenizer->vocab_size());
    CHECK(encode(*again, "Hello 12 <|endoftext|>") == encode(*tokenizer, "Hello 12 <|endoftext|>"));
  }
}

TEST_CASE("GPT-2's pair of files and a tokenizer.json of the same content agree") {
  const nlohmann::json json = golden_json("gpt2_style");
  const test::TemporaryFolder folder;
  write_file_atomically(folder.path() / "encoder.json", json["model"]["vocab"].dump());
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : json["model"]["merges"]) merges += merge.get<std::string>() + "\n";
  write_file_atomically(folder.path() / "vocab.bpe", merges);
  const auto from_files = Tokenizer::load(folder.path().string());
  const auto from_json = load_json(json);
  CHECK(from_files->fingerprint() == from_json->fingerprint());
  CHECK(from_files->end_of_document() == from_json->end_of_document());
  for (const std::string& text : test::difficult_texts()) {
    CHECK(encode(*from_files, text) == encode(*from_json, text));
  }
  const test::TemporaryFolder copy;
  from_files->save(copy.path());
  CHECK(Tokenizer::load(copy.path().string())->fingerprint() == from_files->fingerprint());
}

TEST_CASE("Whatever changes ids changes the fingerprint") {
  std::vector<std::uint64_t> prints;
  const auto add = [&](const std::function<void(nlohmann::json&)>& edit) {
    nlohmann::json json = golden_json("qwen_style");
    edit(json);
    prints.push_back(load_json(json)->fingerprint());
  };
  add([](nlohmann::json&) {});
  add([](nlohmann::json& json) { json["normalizer"] = nullptr; });
  add([](nlohmann::json& json) { json["model"]["ignore_merges"] = true; });
  add([](nlohmann::json& json) { json["model"]["merges"].erase(100); });
  add([](nlohmann::json& json) {
    std::swap(json["model"]["merges"][3], json["model"]["merges"][9]);
  });
  add([](nlohmann::json& json) { json["added_tokens"].erase(3); });
  add([](nlohmann::json& json) { json["added_tokens"][3]["lstrip"] = true; });
  add([](nlohmann::json& json) { json["pre_tokenizer"]["pretokenizers"].erase(0); });
  add([](nlohmann::json& json) {
    auto& vocab = json["model"]["vocab"];
    std::swap(vocab["a"], vocab["b"]);
  });
  std::sort(prints.begin(), prints.end());
  CHECK(std::adjacent_find(prints.begin(), prints.end()) == prints.end());
}

TEST_CASE("Several threads encode at once with the same ids") {
  const auto tokenizer = test::load_golden_tokenizer("qwen_style");
  const std::vector<std::string> texts = test::difficult_texts();
  const std::vector<Ids> expected = test::golden_ids("qwen_style");
  std::vector<int> faults(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < faults.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 3 * texts.size(); ++i) {
        const std::size_t k = (i * 7 + t * 31) % texts.size();
        faults[t] += encode(*tokenizer, texts[k]) != expected[k];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(faults == std::vector<int>(4, 0));
}
