#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/file_io.h"
#include "data/pretokenizer.h"
#include "data/utf8.h"
#include "support/catch.h"
#include "unit/data_tokenizer_helpers.h"

using namespace flywheel;
using test::Ids;

namespace {

void check_all(const Tokenizer& tokenizer, const std::string& name) {
  const std::vector<std::string> texts = test::difficult_texts();
  const std::vector<Ids> expected = test::golden_ids(name);
  REQUIRE(texts.size() > 300);
  REQUIRE(texts.size() == expected.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(i, test::escaped(texts[i]));
    CHECK(test::encode(tokenizer, texts[i]) == expected[i]);
  }
  // Again, now that the words are cached.
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CHECK(test::encode(tokenizer, texts[i]) == expected[i]);
  }
}

std::unique_ptr<Tokenizer> edited_golden(const std::string& style,
                                         const std::function<void(nlohmann::json&)>& edit) {
  const test::TemporaryFolder folder;
  nlohmann::json json = nlohmann::json::parse(
      read_text_file(test::golden("tokenizers/" + style + "/tokenizer.json")));
  edit(json);
  write_file_atomically(folder.path() / "tokenizer.json", json.dump());
  return Tokenizer::load(folder.path().string());
}

class Collector : public PieceSink {
 public:
  void piece(std::string_view text) override { pieces.emplace_back(text); }
  std::vector<std::string> pieces;
};

SplitBehavior behavior_named(const std::string& name) {
  if (name == "isolated") return SplitBehavior::Isolated;
  if (name == "removed") return SplitBehavior::Removed;
  if (name == "merged_with_previous") return SplitBehavior::MergedWithPrevious;
  if (name == "merged_with_next") return SplitBehavior::MergedWithNext;
  REQUIRE(name == "contiguous");
  return SplitBehavior::Contiguous;
}

}  // namespace

TEST_CASE("Small tokenizers of every style give the reference library's ids") {
  for (const char* style : {"gpt2_style", "qwen_style", "smollm2_style", "llama3_style", "features",
                            "sentencepiece_style"}) {
    SECTION(style) {
      check_all(*test::load_golden_tokenizer(style), style);
    }
  }
  SECTION("unknown tokens that are not fused") {
    check_all(*edited_golden("features",
                             [](nlohmann::json& json) {
                               json["model"]["fuse_unk"] = false;
                               json["normalizer"] = {{"type", "NFKD"}};
                             }),
              "features_unfused");
  }
}

TEST_CASE("A space before the text is dropped behind the beginning only") {
  const auto tokenizer = test::load_golden_tokenizer("sentencepiece_style");
  Ids ids = test::encode(*tokenizer, "the caf\u00e9 \u65e5\n");
  REQUIRE(tokenizer->decode(ids) == " the caf\u00e9 \u65e5\n");
  ids.insert(ids.begin(), 1);
  REQUIRE(tokenizer->decode(ids) == "<s>the caf\u00e9 \u65e5\n");
}

TEST_CASE("The real vocabularies give the reference library's ids on difficult texts") {
  for (const char* name : {"gpt2", "qwen3"}) {
    const auto path = test::real_data(std::string("tokenizers/") + name);
    if (!path) {
      std::printf("skipped: no tokenizers/%s among the real data\n", name);
      continue;
    }
    check_all(*Tokenizer::load(path->string()), name);
  }
}

TEST_CASE("Split pre-tokenizers cut as the reference library does") {
  const nlohmann::json golden =
      nlohmann::json::parse(read_text_file(test::golden("tokenizers/splits.json")));
  const auto texts = golden["texts"].get<std::vector<std::string>>();
  REQUIRE(golden["cases"].size() > 200);
  for (const nlohmann::json& item : golden["cases"]) {
    const auto pattern = item["pattern"].get<std::string>();
    const auto behavior = item["behavior"].get<std::string>();
    const bool invert = item["invert"].get<bool>();
    const auto make = item["regex"].get<bool>() ? make_split : make_literal_split;
    const PreTokenizerPtr splitter = make(pattern, behavior_named(behavior), invert, "test");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Collector collector;
      splitter->split(texts[i], collector);
      CAPTURE(pattern, behavior, invert, texts[i]);
      CHECK(collector.pieces == item["pieces"][i].get<std::vector<std::string>>());
    }
  }
}
