#include "eval/recall.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "core/error.h"
#include "core/file_io.h"
#include "model/sequence_packer.h"

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

// One text as the model sees it, with the rows of logits that answer each spot.
struct TokenizedText {
  std::vector<std::int32_t> ids;  // begins with the end-of-document token, as in a shard
  std::vector<std::pair<std::int64_t, std::int64_t>> spots;  // indices into ids
};

TokenizedText tokenize(const RecallText& text, const Tokenizer& tokenizer) {
  TokenizedText result;
  tokenizer.encode(text.text, result.ids);
  std::vector<std::int64_t> lengths;
  for (const std::int32_t id : result.ids) {
    lengths.push_back(static_cast<std::int64_t>(tokenizer.decode(std::span(&id, 1)).size()));
  }
  const std::int64_t bytes = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  require(bytes == static_cast<std::int64_t>(text.text.size()), ErrorKind::Data,
          "the tokenizer gives back {} bytes for a text of {}: it is not lossless on it", bytes,
          text.text.size());
  const bool marked = tokenizer.end_of_document() >= 0;
  if (marked) result.ids.insert(result.ids.begin(), tokenizer.end_of_document());
  for (const auto& spot : text.spots) {
    const auto [first, last] = covering_tokens(lengths, spot);
    result.spots.emplace_back(first + (marked ? 1 : 0), last + (marked ? 1 : 0));
  }
  return result;
}

bool is_most_likely(std::span<const float> logits, std::int32_t token) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin() == token;
}

// Runs packed passes and counts.
class RecallRun {
 public:
  RecallRun(Transformer& model, const TransformerLimits& limits, std::uint64_t seed)
      : model_(model),
        limits_(limits),
        draw_{.seed = seed, .stream = RandomStream::kEvaluationPermutation} {
    for (const std::int64_t bound : kGapBounds) result_.by_gap.push_back({.max_gap = bound});
    result_.all.max_gap = kGapBounds[std::size(kGapBounds) - 1];
  }

  void add(const TokenizedText& text, const RecallText& source) {
    const auto length = static_cast<std::int64_t>(text.ids.size()) - 1;
    require(length <= limits_.max_tokens, ErrorKind::Config,
            "a text of {} tokens does not fit into the {} tokens of a pass", length,
            limits_.max_tokens);
    if (packer_.tokens() + length > limits_.max_tokens ||
        packer_.sequences() == limits_.max_sequences) {
      flush();
    }
    const std::int64_t offset = packer_.tokens();
    const std::span ids(text.ids);
    packer_.add(ids.first(length), ids.last(length));
    for (std::size_t i = 0; i < text.spots.size(); ++i) {
      questions_.push_back({.gap = source.spots[i].gap, .first_row = rows_.size()});
      // The token at index t is predicted by the row of the one before.
      for (std::int64_t t = text.spots[i].first; t < text.spots[i].second; ++t) {
        if (t > 0) {
          rows_.push_back(offset + t - 1);
          answers_.push_back(text.ids[t]);
        }
      }
      questions_.back().last_row = rows_.size();
    }
    ++result_.texts;
  }

  RecallResult finish() && {
    flush();
    if (result_.tokens > 0) result_.loss = loss_ / static_cast<double>(result_.tokens);
    return std::move(result_);
  }

 private:
  struct Question {
    std::int64_t gap = 0;
    std::size_t first_row = 0;  // into rows_
    std::size_t last_row = 0;
  };

  void flush() {
    if (packer_.tokens() == 0) return;
    losses_.resize(packer_.tokens());
    loss_ += model_.forward(packer_.view(), draw_, losses_);
    result_.tokens += packer_.tokens();
    if (!rows_.empty()) count_answers();
    packer_.clear();
    rows_.clear();
    answers_.clear();
    questions_.clear();
  }

  void count_answers() {
    const auto vocab = static_cast<std::size_t>(model_.config().vocab_size);
    logits_.resize(rows_.size() * vocab);
    model_.logits(packer_.view(), draw_, rows_, logits_);
    for (const Question& question : questions_) {
      bool right = true;
      for (std::size_t row = question.first_row; row < question.last_row; ++row) {
        right =
            right && is_most_likely(std::span(logits_).subspan(row * vocab, vocab), answers_[row]);
      }
      count(question.gap, right);
    }
  }

  void count(std::int64_t gap, bool right) {
    const auto fits = [&](const RecallBucket& bucket) { return gap <= bucket.max_gap; };
    for (RecallBucket* bucket :
         {&result_.all, &*std::find_if(result_.by_gap.begin(), result_.by_gap.end(), fits)}) {
      ++bucket->spots;
      bucket->recalled += right ? 1 : 0;
    }
  }

  Transformer& model_;
  TransformerLimits limits_;
  PermutationDraw draw_;
  SequencePacker packer_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int32_t> answers_;  // one a row
  std::vector<Question> questions_;
  std::vector<float> losses_;
  std::vector<float> logits_;
  double loss_ = 0;
  RecallResult result_;
};

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

RecallResult evaluate_recall(Transformer& model, const Tokenizer& tokenizer,
                             std::span<const RecallText> texts, const TransformerLimits& limits,
                             std::uint64_t seed) {
  RecallRun run(model, limits, seed);
  for (const RecallText& text : texts) run.add(tokenize(text, tokenizer), text);
  return std::move(run).finish();
}

}  // namespace flywheel
