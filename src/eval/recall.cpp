#include "eval/recall.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "core/error.h"
#include "core/file_io.h"

namespace flywheel {
namespace {

constexpr std::int64_t kGapBounds[] = {16, 24, 32,  48,
                                       64, 96, 128, std::numeric_limits<std::int64_t>::max()};

RecallText parse_line(const std::string& line) {
  const auto json = nlohmann::json::parse(line);
  RecallText result{.text = json.at("text").get<std::string>(), .spots = {}};
  for (const auto& spot : json.at("recalls")) {
    result.spots.push_back({.begin = spot.at("begin").get<std::int64_t>(),
                            .end = spot.at("end").get<std::int64_t>(),
                            .gap = spot.at("gap").get<std::int64_t>()});
    const RecallText::Spot& last = result.spots.back();
    const auto size = static_cast<std::int64_t>(result.text.size());
    require(0 <= last.begin && last.begin < last.end && last.end <= size, ErrorKind::Data,
            "bytes {} to {} are not inside the text of {} bytes", last.begin, last.end, size);
  }
  return result;
}

bool is_recalled(std::span<const TokenScore> scores, std::int64_t first, std::int64_t last) {
  for (std::int64_t token = first; token < last; ++token) {
    // The score of a token lies one before it: nothing predicts the first.
    if (token > 0 && !scores[static_cast<std::size_t>(token - 1)].is_greedy) return false;
  }
  return true;
}

void count(RecallResult& result, std::int64_t gap, bool recalled) {
  const auto fits = [&](const RecallBucket& bucket) { return gap <= bucket.max_gap; };
  for (RecallBucket* bucket :
       {&result.all, &*std::find_if(result.by_gap.begin(), result.by_gap.end(), fits)}) {
    ++bucket->spots;
    bucket->recalled += recalled ? 1 : 0;
  }
}

}  // namespace

std::vector<RecallText> read_recall_file(const std::filesystem::path& path) {
  std::istringstream lines(read_text_file(path));
  std::vector<RecallText> texts;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    try {
      texts.push_back(parse_line(line));
    } catch (const std::exception& error) {
      fail(ErrorKind::Data, "{}: line {}: {}", path.string(), number, error.what());
    }
  }
  require(!texts.empty(), ErrorKind::Data, "{}: no texts in it", path.string());
  return texts;
}

std::pair<std::int64_t, std::int64_t> covering_tokens(std::span<const std::int64_t> lengths,
                                                      const RecallText::Spot& spot) {
  std::int64_t first = 0;
  std::int64_t byte = 0;
  while (byte + lengths[first] <= spot.begin) byte += lengths[first++];
  std::int64_t last = first;
  while (byte < spot.end) byte += lengths[last++];
  return {first, last};
}

TokenizedRecall tokenize_recall(const RecallText& text, const Tokenizer& tokenizer) {
  TokenizedRecall result;
  std::vector<std::int32_t>& ids = result.request.tokens;
  tokenizer.encode(text.text, ids);
  std::vector<std::int64_t> lengths;
  for (const std::int32_t id : ids) {
    lengths.push_back(static_cast<std::int64_t>(tokenizer.decode(std::span(&id, 1)).size()));
  }
  const std::int64_t bytes = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  require(bytes == static_cast<std::int64_t>(text.text.size()), ErrorKind::Data,
          "the tokenizer gives back {} bytes for a text of {}: it is not lossless on it", bytes,
          text.text.size());
  const bool marked = tokenizer.end_of_document() >= 0;
  if (marked) ids.insert(ids.begin(), tokenizer.end_of_document());
  for (const auto& spot : text.spots) {
    const auto [first, last] = covering_tokens(lengths, spot);
    result.spots.emplace_back(first + (marked ? 1 : 0), last + (marked ? 1 : 0));
  }
  return result;
}

RecallResult count_recall(std::span<const RecallText> texts,
                          std::span<const TokenizedRecall> tokenized,
                          std::span<const std::vector<TokenScore>> scores) {
  RecallResult result;
  result.texts = std::ssize(texts);
  for (const std::int64_t bound : kGapBounds) result.by_gap.push_back({.max_gap = bound});
  result.all.max_gap = result.by_gap.back().max_gap;
  double loss = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    loss -= total(scores[i]).log_likelihood;
    result.tokens += std::ssize(scores[i]);
    for (std::size_t spot = 0; spot < texts[i].spots.size(); ++spot) {
      const auto [first, last] = tokenized[i].spots[spot];
      count(result, texts[i].spots[spot].gap, is_recalled(scores[i], first, last));
    }
  }
  if (result.tokens > 0) result.loss = loss / static_cast<double>(result.tokens);
  return result;
}

RecallResult evaluate_recall(Scorer& scorer, const Tokenizer& tokenizer,
                             std::span<const RecallText> texts) {
  std::vector<TokenizedRecall> tokenized;
  std::vector<TokenRequest> requests;
  for (const RecallText& text : texts) {
    tokenized.push_back(tokenize_recall(text, tokenizer));
    requests.push_back(tokenized.back().request);
  }
  return count_recall(texts, tokenized, scorer.score(requests));
}

}  // namespace flywheel
