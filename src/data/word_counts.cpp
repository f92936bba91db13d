#include "data/word_counts.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/thread_pool.h"
#include "data/input_files.h"
#include "data/ordered_pipeline.h"
#include "data/text_source.h"
#include "data/utf8.h"
#include "data/vocabulary.h"

namespace flywheel {

namespace {

using CountOfWord =
    std::unordered_map<std::string, std::int64_t, Vocabulary::StringHash, std::equal_to<>>;

struct CountedChunk {
  CountOfWord counts;
  std::uint64_t file_bytes = 0;
};

class Counter : public PieceSink {
 public:
  Counter(const WordRules& rules, CountOfWord& counts) : rules_(rules), counts_(counts) {}

  void add_text(std::string_view text) {
    std::string repaired;
    if (valid_utf8_prefix(text) < text.size()) text = repaired = replace_invalid_utf8(text);
    spans_.clear();
    rules_.special_tokens.find(text, spans_);
    for (const AddedTokenSpan& span : spans_) {
      if (span.id < 0) add_words(text.substr(span.begin, span.end - span.begin));
    }
  }

  void piece(std::string_view word) override {
    const auto found = counts_.find(word);
    if (found != counts_.end()) {
      ++found->second;
    } else {
      counts_.emplace(word, 1);
    }
  }

 private:
  void add_words(std::string_view text) {
    if (rules_.normalizer && rules_.normalizer->apply(text, normalized_)) text = normalized_;
    if (!text.empty()) rules_.pretokenizer->split(text, *this);
  }

  const WordRules& rules_;
  CountOfWord& counts_;
  std::vector<AddedTokenSpan> spans_;
  std::string normalized_;
};

CountedChunk count(TextChunk& chunk, const WordRules& rules, const std::string& text_key) {
  if (!chunk.json_lines.empty()) parse_json_lines(chunk, text_key);
  CountedChunk result;
  result.file_bytes = chunk.bytes;
  Counter counter(rules, result.counts);
  for (const TextPiece& piece : chunk.pieces) counter.add_text(piece.text);
  return result;
}

void add_counts(CountOfWord& from, CountOfWord& to) {
  while (!from.empty()) {
    auto node = from.extract(from.begin());
    const std::int64_t count = node.mapped();
    const auto place = to.insert(std::move(node));
    if (!place.inserted) place.position->second += count;
  }
}

std::vector<WordCount> sorted(CountOfWord& counts) {
  std::vector<WordCount> words;
  words.reserve(counts.size());
  while (!counts.empty()) {
    auto node = counts.extract(counts.begin());
    words.push_back({std::move(node.key()), node.mapped()});
  }
  std::sort(words.begin(), words.end(),
            [](const WordCount& a, const WordCount& b) { return a.word < b.word; });
  return words;
}

}  // namespace

std::vector<WordCount> count_words(const std::vector<std::filesystem::path>& files,
                                   const WordRules& rules, const std::string& text_key, int threads,
                                   const std::function<void(const WordCountProgress&)>& report) {
  CountOfWord counts;
  WordCountProgress progress;
  progress.total_bytes = total_size(files);
  TextSource source(files, "");
  OrderedPipeline<TextChunk, CountedChunk> pipeline;
  pipeline.take = [&](TextChunk& chunk) { return source.next(chunk); };
  pipeline.work = [&](TextChunk& chunk) { return count(chunk, rules, text_key); };
  pipeline.write = [&](CountedChunk& chunk) {
    add_counts(chunk.counts, counts);
    progress.bytes += chunk.file_bytes;
    progress.words = static_cast<std::int64_t>(counts.size());
    report(progress);
  };
  ThreadPool pool(threads);
  pipeline.run(pool);
  return sorted(counts);
}

}  // namespace flywheel
