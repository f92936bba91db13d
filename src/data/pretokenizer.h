#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace flywheel {

// Takes the pieces of a text one by one, in order, none of them empty.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(std::string_view text) = 0;
};

// A step of pre-tokenization: cuts well-formed UTF-8 (not empty) into pieces that are merged apart
// from each other.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void split(std::string_view text, PieceSink& sink) const = 0;
  // Equal for steps that cut alike; part of the tokenizer's fingerprint.
  virtual std::string description() const = 0;
};

using PreTokenizerPtr = std::unique_ptr<PreTokenizer>;

// What becomes of the matches of a splitting pattern.
enum class SplitBehavior { Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous };

// Cuts at the matches of a pattern; `invert` swaps matches and gaps. `where` names file and key in
// errors. Patterns that have a hand-written scanner (pattern_scanner.h) are cut by it when it gives
// the same pieces.
PreTokenizerPtr make_split(std::string_view pattern, SplitBehavior behavior, bool invert,
                           const std::string& where);
// The same by PCRE2 alone: the oracle of the scanners.
PreTokenizerPtr make_regex_split(std::string_view pattern, SplitBehavior behavior, bool invert,
                                 const std::string& where);
PreTokenizerPtr make_literal_split(std::string_view literal, SplitBehavior behavior, bool invert,
                                   const std::string& where);

// Cuts at characters that have any of these bits (char_class.h).
PreTokenizerPtr make_class_split(unsigned char classes, SplitBehavior behavior);

// `\w+|[^\w\s]+`, whitespace removed.
PreTokenizerPtr make_whitespace_and_punctuation_split();

// Puts a space before a text that does not begin with one.
PreTokenizerPtr make_prefix_space();

// Each step cuts the pieces of the one before it; no steps leave the text whole.
PreTokenizerPtr make_pretokenizer_sequence(std::vector<PreTokenizerPtr> steps);

}  // namespace flywheel
