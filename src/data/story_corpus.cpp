#include "data/story_corpus.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "core/philox.h"

namespace flywheel {
namespace {

using Word = std::string_view;

// Sixteen of each: a guess is right one time in sixteen.
constexpr std::array<Word, 16> kNames = {"Mia",   "Tom",  "Anna",  "Omar",  "Lena", "Hugo",
                                         "Ruth",  "Ivan", "Nora",  "Felix", "Ella", "Jonas",
                                         "Clara", "Sami", "Greta", "Boris"};
constexpr std::array<Word, 16> kPlaces = {"Oakford",   "Millbrook", "Stonebury", "Ashdale",
                                          "Redcliff",  "Fernhill",  "Westhaven", "Larkfield",
                                          "Northgate", "Elmwood",   "Greymoor",  "Saltmarsh",
                                          "Windmere",  "Highcroft", "Thornley",  "Brightwater"};
constexpr std::array<Word, 16> kItems = {
    "lantern", "violin", "compass", "locket", "kettle", "saddle", "mirror", "whistle",
    "banner",  "helmet", "ladder",  "medal",  "drum",   "clock",  "crown",  "telescope"};
constexpr std::array<Word, 8> kTrades = {"baker",  "sailor", "farmer",  "painter",
                                         "weaver", "doctor", "teacher", "shepherd"};

// The hero's deeds, what a crowd does, what happens to the possession, and what they are done to.
constexpr std::array<Word, 8> kDeeds = {"opened",  "cleaned", "repaired", "painted",
                                        "climbed", "crossed", "measured", "sketched"};
constexpr std::array<Word, 6> kCrowdDeeds = {"admired", "guarded", "rebuilt",
                                             "visited", "praised", "blocked"};
constexpr std::array<Word, 6> kRests = {"lay", "stood", "shone", "rested", "waited", "gleamed"};
constexpr std::array<Word, 12> kSights = {"gate",   "bridge", "tower",  "barn",   "mill", "wall",
                                          "harbor", "garden", "chapel", "tunnel", "well", "market"};

// A creature with the adjectives it takes and the verbs it does: what local attention learns.
struct Creature {
  Word noun;
  std::array<Word, 2> adjectives;
  std::array<Word, 3> verbs;
};
constexpr std::array<Creature, 12> kCreatures = {{
    {"dog", {"loyal", "muddy"}, {"chased", "followed", "greeted"}},
    {"cat", {"sleepy", "striped"}, {"watched", "ignored", "scratched"}},
    {"horse", {"brown", "strong"}, {"carried", "passed", "followed"}},
    {"fox", {"clever", "red"}, {"tricked", "watched", "avoided"}},
    {"goose", {"noisy", "white"}, {"chased", "bit", "scared"}},
    {"bear", {"huge", "hungry"}, {"scared", "passed", "lifted"}},
    {"rabbit", {"tiny", "shy"}, {"avoided", "heard", "followed"}},
    {"owl", {"wise", "silent"}, {"heard", "watched", "warned"}},
    {"goat", {"stubborn", "hungry"}, {"pushed", "bit", "ignored"}},
    {"crow", {"black", "noisy"}, {"warned", "tricked", "circled"}},
    {"donkey", {"patient", "brown"}, {"carried", "pushed", "greeted"}},
    {"otter", {"playful", "wet"}, {"circled", "splashed", "tricked"}},
}};

enum Kind : std::uint8_t { kName, kPlace, kItem, kKinds };
constexpr std::array<Word, kKinds> kKindNames = {"name", "place", "item"};

// Writes one story, word by word.
class StoryWriter {
 public:
  StoryWriter(std::uint64_t seed, std::uint32_t index)
      : words_(seed, RandomStream::kCorpus, index),
        facts_{pick(kNames), pick(kPlaces), pick(kItems)} {}

  Story write() && {
    opening();
    Kind subject = kName;
    for (std::size_t scenes = 2 + below(3); scenes > 0; --scenes) {
      scene(subject);
      subject = static_cast<Kind>((subject + 1 + below(2)) % kKinds);
    }
    closing();
    return std::move(story_);
  }

 private:
  std::size_t below(std::size_t bound) { return words_.below(drawn_++, bound); }

  template <class List>
  const typename List::value_type& pick(const List& list) {
    return list[below(list.size())];
  }

  // A braced list, because its draws happen from left to right.
  void say(std::initializer_list<Word> words) {
    for (const Word word : words) {
      if (position_ > 0 && word != ".") story_.text += ' ';
      story_.text += word;
      ++position_;
    }
  }

  // The first mention of a fact.
  void tell(Kind kind) {
    say({facts_[kind]});
    last_mention_[kind] = position_;
  }

  void recall(Kind kind) {
    say({facts_[kind]});
    const auto end = static_cast<std::int64_t>(story_.text.size());
    story_.recalls.push_back({.kind = std::string(kKindNames[kind]),
                              .begin = end - static_cast<std::int64_t>(facts_[kind].size()),
                              .end = end,
                              .gap = position_ - last_mention_[kind]});
    last_mention_[kind] = position_;
  }

  void opening() {
    say({"Once", "there", "was", "a", pick(kTrades), "called"});
    tell(kName);
    say({"who", "lived", "in"});
    tell(kPlace);
    say({"and", "owned", "a"});
    tell(kItem);
    say({"."});
  }

  // Mentions one fact several times, with little in between.
  void scene(Kind subject) {
    for (std::size_t mentions = 2 + below(2); mentions > 0; --mentions) {
      for (std::size_t sentences = below(4) == 0 ? 2 : 1; sentences > 0; --sentences) filler();
      mention(subject);
    }
  }

  void mention(Kind subject) {
    switch (subject) {
      case kName:
        say({"Then"});
        recall(kName);
        say({pick(kDeeds), "the", pick(kSights), "."});
        break;
      case kPlace:
        say({"The", "people", "of"});
        recall(kPlace);
        say({pick(kCrowdDeeds), "the", pick(kSights), "."});
        break;
      default:
        say({"The", "precious"});
        recall(kItem);
        say({pick(kRests), "near", "the", pick(kSights), "."});
    }
  }

  void filler() {
    const Creature& actor = pick(kCreatures);
    say({"The", pick(actor.adjectives), actor.noun, pick(actor.verbs), "the", pick(kCreatures).noun,
         "."});
  }

  void closing() {
    filler();
    say({"At", "last"});
    recall(kName);
    say({"returned", "to"});
    recall(kPlace);
    say({"with", "the", "precious"});
    recall(kItem);
    say({"."});
  }

  RandomSequence words_;
  std::uint64_t drawn_ = 0;
  std::array<Word, kKinds> facts_;
  std::array<std::int64_t, kKinds> last_mention_{};
  std::int64_t position_ = 0;  // words so far
  Story story_;
};

// Every word that a story can hold, sorted.
std::set<Word> story_words() {
  std::set<Word> words = {"Once",     "there", "was", "a",    "called",   "who", "lived",  "in",
                          "and",      "owned", ".",   "Then", "the",      "The", "people", "of",
                          "precious", "near",  "At",  "last", "returned", "to",  "with"};
  const auto add = [&](const auto& list) { words.insert(list.begin(), list.end()); };
  add(kNames), add(kPlaces), add(kItems), add(kTrades), add(kDeeds), add(kCrowdDeeds), add(kRests);
  add(kSights);
  for (const Creature& creature : kCreatures) {
    words.insert(creature.noun);
    add(creature.adjectives), add(creature.verbs);
  }
  return words;
}

std::string utf8(unsigned code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

// The byte-level alphabet: a printable byte stands for itself, the others for U+0100 and up.
std::string byte_symbol(unsigned byte) {
  const auto printable = [](unsigned b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  if (printable(byte)) return utf8(byte);
  unsigned rank = 0;
  for (unsigned b = 0; b < byte; ++b) rank += printable(b) ? 0 : 1;
  return utf8(0x100 + rank);
}

}  // namespace

Story make_story(std::uint64_t seed, std::uint32_t index) {
  return StoryWriter(seed, index).write();
}

std::string story_tokenizer_json() {
  using Json = nlohmann::ordered_json;
  Json vocab = Json::object();
  for (unsigned byte = 0; byte < 256; ++byte) vocab[byte_symbol(byte)] = byte;
  const std::string space = byte_symbol(' ');
  for (const Word word : story_words()) {
    if (word == ".") continue;  // a single byte already
    // Stories open with "Once"; every other word follows a space.
    const std::string symbol = word == "Once" ? std::string(word) : space + std::string(word);
    vocab[symbol] = vocab.size();
  }
  const std::string end_of_text = "<|endoftext|>";
  const std::size_t end_of_text_id = vocab.size();
  vocab[end_of_text] = end_of_text_id;

  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  Json tokenizer = {{"version", "1.0"},
                    {"truncation", nullptr},
                    {"padding", nullptr},
                    {"added_tokens", Json::array({{{"id", end_of_text_id},
                                                   {"content", end_of_text},
                                                   {"single_word", false},
                                                   {"lstrip", false},
                                                   {"rstrip", false},
                                                   {"normalized", false},
                                                   {"special", true}}})},
                    {"normalizer", nullptr},
                    {"pre_tokenizer", byte_level},
                    {"post_processor", nullptr},
                    {"decoder", byte_level},
                    {"model",
                     {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges",
                       true},  // a word in the vocabulary is one token, without a chain of merges
                      {"vocab", vocab},
                      {"merges", Json::array()}}}};
  return tokenizer.dump(1) + "\n";
}

}  // namespace flywheel
