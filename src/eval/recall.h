#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer.h"
#include "eval/scorer.h"

namespace flywheel {

// A text with words that can be known only from earlier in it.
struct RecallText {
  struct Spot {
    std::int64_t begin = 0;  // bytes [begin, end) of the text
    std::int64_t end = 0;
    std::int64_t gap = 0;  // words since the word's last mention
  };
  std::string text;
  std::vector<Spot> spots;
};

// Reads one JSON object a line: {"text": "...", "recalls": [{"begin": 0, "end": 3, "gap": 18},
// ...]}. Error Data names file, line and fault.
std::vector<RecallText> read_recall_file(const std::filesystem::path& path);

// Token [first, last) of a text that cover a spot; `lengths` are the tokens' bytes.
std::pair<std::int64_t, std::int64_t> covering_tokens(std::span<const std::int64_t> lengths,
                                                      const RecallText::Spot& spot);

struct RecallBucket {
  std::int64_t max_gap = 0;  // words; the bucket begins where the one before ends
  std::int64_t spots = 0;
  std::int64_t recalled = 0;
  double accuracy() const { return spots == 0 ? 0 : double(recalled) / double(spots); }
};

struct RecallResult {
  std::int64_t texts = 0;
  std::int64_t tokens = 0;
  double loss = 0;  // nats a token
  RecallBucket all;
  std::vector<RecallBucket> by_gap;  // bounds 16, 24, 32, 48, 64, 96, 128 and the rest
};

// A text as the model sees it: all of its tokens are scored, after the end-of-document token, as in
// a shard, if the tokenizer has one.
struct TokenizedRecall {
  TokenRequest request;
  std::vector<std::pair<std::int64_t, std::int64_t>> spots;  // tokens [first, last)
};
TokenizedRecall tokenize_recall(const RecallText& text, const Tokenizer& tokenizer);

// A word is recalled when each of its tokens is the most likely one, given the true text before it.
RecallResult count_recall(std::span<const RecallText> texts,
                          std::span<const TokenizedRecall> tokenized,
                          std::span<const std::vector<TokenScore>> scores);

// All of it. A text that is longer than a pass is Error Config.
RecallResult evaluate_recall(Scorer& scorer, const Tokenizer& tokenizer,
                             std::span<const RecallText> texts);

}  // namespace flywheel
