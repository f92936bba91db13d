#include "data/story_corpus.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/catch.h"

namespace flywheel {
namespace {

constexpr std::uint32_t kStories = 300;

struct PlacedWord {
  std::string word;
  std::int64_t begin = 0;
};

// Words with their places; a punctuation mark is a word.
std::vector<PlacedWord> split(const std::string& text) {
  std::vector<PlacedWord> words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    const bool starts = i == 0 || text[i - 1] == ' ' || text[i] == '.';
    if (starts) words.push_back({"", static_cast<std::int64_t>(i)});
    words.back().word += text[i];
  }
  return words;
}

TEST_CASE("a story is a pure function of seed and index") {
  CHECK(make_story(1, 5).text == make_story(1, 5).text);
  CHECK(make_story(1, 5).text != make_story(1, 6).text);
  CHECK(make_story(1, 5).text != make_story(2, 5).text);
}

TEST_CASE("a recalled word stands where the story says and was last said `gap` words before") {
  for (std::uint32_t index = 0; index < kStories; ++index) {
    const Story story = make_story(7, index);
    const std::vector<PlacedWord> words = split(story.text);
    for (const Recall& recall : story.recalls) {
      const auto is_here = [&](const PlacedWord& word) { return word.begin == recall.begin; };
      const auto here = std::find_if(words.begin(), words.end(), is_here);
      INFO("story " << index << ", byte " << recall.begin);
      REQUIRE(here != words.end());
      CHECK(recall.end - recall.begin == static_cast<std::int64_t>(here->word.size()));
      auto before = here;
      while (before != words.begin() && (--before)->word != here->word) {
      }
      REQUIRE(before->word == here->word);
      CHECK(here - before == recall.gap);
    }
  }
}

TEST_CASE("most recalls are near, some are far, every kind and every word of a kind occurs") {
  int near = 0;
  int far = 0;
  int all = 0;
  std::set<std::string> recalled;
  for (std::uint32_t index = 0; index < kStories; ++index) {
    const Story story = make_story(7, index);
    for (const Recall& recall : story.recalls) {
      ++all;
      near += recall.gap <= 24 ? 1 : 0;
      far += recall.gap >= 64 ? 1 : 0;
      recalled.insert(recall.kind + story.text.substr(recall.begin, recall.end - recall.begin));
    }
  }
  CHECK(near > all / 2);
  CHECK(far > all / 10);
  CHECK(recalled.size() == 3 * 16);
}

TEST_CASE("every word of the stories is a token of the story tokenizer") {
  const auto vocab = nlohmann::json::parse(story_tokenizer_json())["model"]["vocab"];
  std::set<std::int64_t> ids;
  for (const auto& [symbol, id] : vocab.items()) ids.insert(id.get<std::int64_t>());
  CHECK(ids.size() == vocab.size());
  CHECK(*ids.rbegin() == static_cast<std::int64_t>(vocab.size()) - 1);
  for (std::uint32_t index = 0; index < kStories; ++index) {
    const Story story = make_story(7, index);
    for (const PlacedWord& word : split(story.text)) {
      const bool bare = word.begin == 0 || word.word == ".";
      INFO(word.word);
      CHECK(vocab.contains(bare ? word.word : "\u0120" + word.word));
    }
  }
}

}  // namespace
}  // namespace flywheel
