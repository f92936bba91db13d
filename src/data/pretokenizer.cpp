#include "data/pretokenizer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "data/char_class.h"
#include "data/pattern_scanner.h"
#include "data/regex.h"
#include "data/utf8.h"

namespace flywheel {

namespace {

// Turns matches and gaps, in order, into pieces.
class SegmentMerger {
 public:
  SegmentMerger(std::string_view text, SplitBehavior behavior, bool invert, PieceSink& sink)
      : text_(text), behavior_(behavior), invert_(invert), sink_(sink) {}

  void segment(std::size_t begin, std::size_t end, bool is_match) {
    const bool match = is_match != invert_;
    if (behavior_ == SplitBehavior::Removed && match) return;
    if (has_pending_ && joins(match)) {
      end_ = end;
    } else {
      flush();
      begin_ = begin;
      end_ = end;
      has_pending_ = true;
    }
    last_was_match_ = match;
  }

  void flush() {
    if (has_pending_ && begin_ < end_) sink_.piece(text_.substr(begin_, end_ - begin_));
    has_pending_ = false;
  }

 private:
  bool joins(bool match) const {
    switch (behavior_) {
      case SplitBehavior::MergedWithPrevious:
        return match && !last_was_match_;
      case SplitBehavior::MergedWithNext:
        return !match && last_was_match_;
      case SplitBehavior::Contiguous:
        return match == last_was_match_;
      case SplitBehavior::Isolated:
      case SplitBehavior::Removed:
        break;
    }
    return false;
  }

  std::string_view text_;
  SplitBehavior behavior_;
  bool invert_;
  PieceSink& sink_;
  std::size_t begin_ = 0, end_ = 0;
  bool has_pending_ = false;
  bool last_was_match_ = false;
};

class RegexSplit : public PreTokenizer {
 public:
  RegexSplit(Regex regex, std::string pattern, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)),
        pattern_(std::move(pattern)),
        behavior_(behavior),
        invert_(invert) {}

  void split(std::string_view text, PieceSink& sink) const override {
    SegmentMerger merger(text, behavior_, invert_, sink);
    regex_.for_each_segment(text, [&merger](std::size_t begin, std::size_t end, bool is_match) {
      merger.segment(begin, end, is_match);
    });
    merger.flush();
  }

  std::string description() const override {
    return fmt::format("split({},{},{})", pattern_, static_cast<int>(behavior_), invert_);
  }

 private:
  Regex regex_;
  std::string pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ScannerSplit : public PreTokenizer {
 public:
  ScannerSplit(Scanner scanner, std::string_view pattern)
      : scanner_(scanner), pattern_(pattern), classes_(char_classes()) {}

  void split(std::string_view text, PieceSink& sink) const override {
    const char* const end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const char* const stop = scanner_(p, end, classes_);
      sink.piece({p, static_cast<std::size_t>(stop - p)});
      p = stop;
    }
  }

  std::string description() const override { return fmt::format("scan({})", pattern_); }

 private:
  Scanner scanner_;
  std::string pattern_;
  const unsigned char* classes_;
};

class ClassSplit : public PreTokenizer {
 public:
  ClassSplit(unsigned char wanted, SplitBehavior behavior)
      : wanted_(wanted), behavior_(behavior), classes_(char_classes()) {}

  void split(std::string_view text, PieceSink& sink) const override {
    SegmentMerger merger(text, behavior_, false, sink);
    std::size_t gap = 0;
    for (std::size_t at = 0; at < text.size();) {
      const DecodedChar c = decode_utf8(text.data() + at);
      const std::size_t next = at + static_cast<std::size_t>(c.length);
      if (classes_[c.code_point] & wanted_) {
        if (gap < at) merger.segment(gap, at, false);
        merger.segment(at, next, true);
        gap = next;
      }
      at = next;
    }
    if (gap < text.size()) merger.segment(gap, text.size(), false);
    merger.flush();
  }

  std::string description() const override {
    return fmt::format("class({},{})", wanted_, static_cast<int>(behavior_));
  }

 private:
  unsigned char wanted_;
  SplitBehavior behavior_;
  const unsigned char* classes_;
};

class WhitespaceAndPunctuationSplit : public PreTokenizer {
 public:
  void split(std::string_view text, PieceSink& sink) const override {
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const Kind kind = kind_at(text, at);
      begin = at;
      while (at < text.size() && kind_at(text, at) == kind) {
        at += static_cast<std::size_t>(decode_utf8(text.data() + at).length);
      }
      if (kind != Kind::Space) sink.piece(text.substr(begin, at - begin));
    }
  }

  std::string description() const override { return "words"; }

 private:
  enum class Kind { Word, Space, Other };

  Kind kind_at(std::string_view text, std::size_t at) const {
    const unsigned char bits = classes_[decode_utf8(text.data() + at).code_point];
    return bits & kWord ? Kind::Word : bits & kSpace ? Kind::Space : Kind::Other;
  }

  const unsigned char* classes_ = char_classes();
};

class PrefixSpace : public PreTokenizer {
 public:
  void split(std::string_view text, PieceSink& sink) const override {
    if (text.front() == ' ') return sink.piece(text);
    sink.piece(std::string(" ").append(text));
  }
  std::string description() const override { return "prefix_space"; }
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<PreTokenizerPtr> steps) : steps_(std::move(steps)) {}

  void split(std::string_view text, PieceSink& sink) const override { run(0, text, sink); }

  std::string description() const override {
    std::string result;
    for (const PreTokenizerPtr& step : steps_) result += step->description() + ";";
    return result;
  }

 private:
  class NextStep : public PieceSink {
   public:
    NextStep(const Sequence& sequence, std::size_t step, PieceSink& sink)
        : sequence_(sequence), step_(step), sink_(sink) {}
    void piece(std::string_view text) override { sequence_.run(step_, text, sink_); }

   private:
    const Sequence& sequence_;
    std::size_t step_;
    PieceSink& sink_;
  };

  void run(std::size_t step, std::string_view text, PieceSink& sink) const {
    if (step == steps_.size()) return sink.piece(text);
    if (step + 1 == steps_.size()) return steps_[step]->split(text, sink);
    NextStep next(*this, step + 1, sink);
    steps_[step]->split(text, next);
  }

  std::vector<PreTokenizerPtr> steps_;
};

}  // namespace

PreTokenizerPtr make_split(std::string_view pattern, SplitBehavior behavior, bool invert,
                           const std::string& where) {
  // The matches leave no gaps, so that keeping the matches and dropping the gaps are one and the
  // same.
  const bool isolates = behavior == SplitBehavior::Isolated;
  const bool keeps_matches = behavior == SplitBehavior::Removed && invert;
  const Scanner scanner = scanner_for(pattern);
  if (scanner && (isolates || keeps_matches)) {
    return std::make_unique<ScannerSplit>(scanner, pattern);
  }
  return make_regex_split(pattern, behavior, invert, where);
}

PreTokenizerPtr make_regex_split(std::string_view pattern, SplitBehavior behavior, bool invert,
                                 const std::string& where) {
  return std::make_unique<RegexSplit>(Regex(pattern, where), std::string(pattern), behavior,
                                      invert);
}

PreTokenizerPtr make_literal_split(std::string_view literal, SplitBehavior behavior, bool invert,
                                   const std::string& where) {
  return std::make_unique<RegexSplit>(Regex::literal(literal, where), std::string(literal),
                                      behavior, invert);
}

PreTokenizerPtr make_class_split(unsigned char classes, SplitBehavior behavior) {
  return std::make_unique<ClassSplit>(classes, behavior);
}

PreTokenizerPtr make_whitespace_and_punctuation_split() {
  return std::make_unique<WhitespaceAndPunctuationSplit>();
}

PreTokenizerPtr make_prefix_space() {
  return std::make_unique<PrefixSpace>();
}

PreTokenizerPtr make_pretokenizer_sequence(std::vector<PreTokenizerPtr> steps) {
  if (steps.size() == 1) return std::move(steps.front());
  return std::make_unique<Sequence>(std::move(steps));
}

}  // namespace flywheel
