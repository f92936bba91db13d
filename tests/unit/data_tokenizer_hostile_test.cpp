#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "core/file_io.h"
#include "support/catch.h"
#include "unit/data_tokenizer_helpers.h"

using namespace flywheel;
using nlohmann::json;

namespace {

json golden_json() {
  return json::parse(read_text_file(test::golden("tokenizers/gpt2_style/tokenizer.json")));
}

// The error of loading `content` as a tokenizer.json; empty if it loads.
std::string load_error(const std::string& content) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "tokenizer.json";
  write_file_atomically(path, content);
  try {
    Tokenizer::load(path.string());
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(error.kind() == ErrorKind::Data);
    CHECK(message.find(path.string()) == 0);
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }
  return "";
}

struct Fault {
  const char* expected;  // a part of the message
  std::function<void(json&)> edit;
};

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"model.type: 'WordPiece' is not supported",
       [](json& j) { j["model"]["type"] = "WordPiece"; }},
      {"tokenizer.model: expected an object", [](json& j) { j["model"] = 3; }},
      {"tokenizer.model.vocab: expected an object",
       [](json& j) { j["model"]["vocab"] = json::array(); }},
      {"expected an integer, not \"x\"", [](json& j) { j["model"]["vocab"]["a"] = "x"; }},
      {"expected an integer, not 1.5", [](json& j) { j["model"]["vocab"]["a"] = 1.5; }},
      {"token 'a' has id -1", [](json& j) { j["model"]["vocab"]["a"] = -1; }},
      {"token 'a' has id 16777217", [](json& j) { j["model"]["vocab"]["a"] = 16777217; }},
      {"expected an integer, not 18446744073709551615",
       [](json& j) { j["model"]["vocab"]["a"] = UINT64_MAX; }},
      {"belongs to two tokens", [](json& j) { j["model"]["vocab"]["a"] = 5; }},
      {"merge 0 needs the token 'zzzzz'", [](json& j) { j["model"]["merges"][0] = "zzzzz a"; }},
      {"merge 1 is 'abc'; expected two tokens", [](json& j) { j["model"]["merges"][1] = "abc"; }},
      {"merges: expected a string or a pair of strings",
       [](json& j) { j["model"]["merges"][1] = 7; }},
      {"merges: expected an array", [](json& j) { j["model"]["merges"] = nullptr; }},
      {"unk_token: expected a token of the vocabulary",
       [](json& j) { j["model"]["unk_token"] = "nope"; }},
      {"decoder 'ByteLevel' is not supported; supported are Replace",
       [](json& j) { j["model"]["byte_fallback"] = true; }},
      {"pre_tokenizer: expected null in a tokenizer with byte_fallback",
       [](json& j) {
         j["model"]["byte_fallback"] = true;
         j["decoder"] = nullptr;
       }},
      {"dropout: not supported", [](json& j) { j["model"]["dropout"] = 0.1; }},
      {"end_of_word_suffix: not supported",
       [](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
      {"pre_tokenizer: no ByteLevel step", [](json& j) { j["pre_tokenizer"] = nullptr; }},
      {"pre_tokenizer: type 'Metaspace' is not supported",
       [](json& j) { j["pre_tokenizer"]["type"] = "Metaspace"; }},
      {"'Digits' behind ByteLevel is not supported",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", {j["pre_tokenizer"], {{"type", "Digits"}}}}};
       }},
      {"nested more than 16 deep",
       [](json& j) {
         for (int i = 0; i < 20; ++i) {
           j["pre_tokenizer"] = {{"type", "Sequence"},
                                 {"pretokenizers", json::array({j["pre_tokenizer"]})}};
         }
       }},
      {"pre_tokenizer.pattern: the pattern '(a' is not understood",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Split"},
                               {"pattern", {{"Regex", "(a"}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
       }},
      {"behavior: expected Isolated, Removed",
       [](json& j) {
         j["pre_tokenizer"] = {
             {"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Cut"}};
       }},
      {"normalizer: type 'Precompiled' is not supported",
       [](json& j) {
         j["normalizer"] = {{"type", "Precompiled"}};
       }},
      {"decoder 'WordPiece' is not supported",
       [](json& j) {
         j["decoder"] = {{"type", "WordPiece"}};
       }},
      {"added_tokens[0].id: expected 0 to 16777216",
       [](json& j) { j["added_tokens"][0]["id"] = -2; }},
      {"added_tokens[0].id: expected an integer, not null",
       [](json& j) { j["added_tokens"][0].erase("id"); }},
      {"added token '<|endoftext|>' has id 9, but 0 in the vocabulary",
       [](json& j) { j["added_tokens"][0]["id"] = 9; }},
      {"id 9 belongs to two tokens",
       [](json& j) {
         j["added_tokens"].push_back({{"id", 9}, {"content", "<new>"}});
       }},
      {"added token 999 has 0 bytes",
       [](json& j) {
         j["added_tokens"].push_back({{"id", 999}, {"content", ""}});
       }},
      {"added token 999 has 5000 bytes",
       [](json& j) {
         j["added_tokens"].push_back({{"id", 999}, {"content", std::string(5000, 'a')}});
       }},
      {"the normalizer leaves nothing of added token",
       [](json& j) {
         j["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
         j["added_tokens"].push_back({{"id", 999}, {"content", "  "}, {"normalized", true}});
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("Faults in a tokenizer.json are named") {
  REQUIRE(load_error(golden_json().dump()).empty());
  for (const Fault& fault : faults()) {
    json edited = golden_json();
    fault.edit(edited);
    const std::string message = load_error(edited.dump());
    CAPTURE(fault.expected, message);
    CHECK(message.find(fault.expected) != std::string::npos);
  }
  CHECK(load_error("{").find("not valid JSON") != std::string::npos);
  CHECK(load_error("").find("not valid JSON") != std::string::npos);
  CHECK(load_error("[]").find("expected an object") != std::string::npos);
  CHECK_FALSE(load_error(std::string(100000, '[')).empty());
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  CHECK(load_error(deep).find("expected an object, not an array") != std::string::npos);
  CHECK(load_error(R"({"model": )" + deep + "}").find("expected an object") != std::string::npos);
}

TEST_CASE("Damaged files give an error or a tokenizer, never a crash") {
  const std::string content = golden_json().dump();
  std::mt19937_64 random(11);
  int errors = 0;
  for (int i = 0; i < 60; ++i) {
    std::string damaged = content;
    if (i % 3 == 0) damaged.resize(random() % content.size());
    for (int j = 0; j < 3 && !damaged.empty(); ++j) {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    }
    errors += !load_error(damaged).empty();
  }
  CHECK(errors > 20);
}

TEST_CASE("Replacements that blow a text up end with an error") {
  json edited = golden_json();
  edited["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(4000, 'b')}};
  const test::TemporaryFolder folder;
  write_file_atomically(folder.path() / "tokenizer.json", edited.dump());
  const auto tokenizer = Tokenizer::load(folder.path().string());
  CHECK(test::encode(*tokenizer, std::string(100, 'a')).size() > 10);
  CHECK_THROWS_AS(test::encode(*tokenizer, std::string(4000, 'a')), Error);
}

TEST_CASE("A tokenizer that is not there is an error that says what is expected") {
  const test::TemporaryFolder folder;
  for (const std::string& name : {folder.path().string(), std::string("no/such/file"),
                                  std::string(), std::string(10000, 'n')}) {
    try {
      Tokenizer::load(name);
      FAIL("loaded");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Data);
      CHECK(std::string(error.what()).find("expected 'byte', a tokenizer.json, or a folder") !=
            std::string::npos);
    }
  }
  write_file_atomically(folder.path() / "encoder.json", R"({"a": 0})");
  try {
    Tokenizer::load(folder.path().string());
    FAIL("loaded");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("vocab.bpe: missing") != std::string::npos);
  }
}
