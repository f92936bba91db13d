#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flywheel {

// The demo's corpus: plain English stories from a grammar of ours. The first sentence tells a
// hero's name, a home and a possession; they return later, mostly after one or two sentences,
// sometimes after the whole story. In between stands ordinary local structure: who goes with which
// adjective and does what. So a model can be asked, at exact places, whether it still knows a fact,
// by distance.

// A place in a story at which a fact told before must be recalled.
struct Recall {
  std::string kind;        // "name", "place" or "item"
  std::int64_t begin = 0;  // bytes [begin, end) of the text are the word
  std::int64_t end = 0;
  std::int64_t gap = 0;  // words since its last mention; a punctuation mark counts as a word
};

struct Story {
  std::string text;
  std::vector<Recall> recalls;  // in the order of the text
};

// A pure function of (seed, index).
Story make_story(std::uint64_t seed, std::uint32_t index);

// A byte-level tokenizer.json in which every word of the stories is one token, and any other text
// falls into bytes.
std::string story_tokenizer_json();

}  // namespace flywheel
