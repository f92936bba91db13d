#include "data/tokenizer_json_parts.h"

#include <utility>

#include "data/char_class.h"
#include "data/pattern_scanner.h"

namespace flywheel {

namespace {

constexpr int kMaxDepth = 16;

[[noreturn]] void refuse_type(const JsonNode& node, const std::string& type,
                              std::string_view supported) {
  fail(ErrorKind::Data, "{}: type '{}' is not supported; supported are {}", node.where(), type,
       supported);
}

void check_depth(const JsonNode& node, int depth) {
  require(depth < kMaxDepth, ErrorKind::Data, "{}: sequences are nested more than {} deep",
          node.where(), kMaxDepth);
}

SplitBehavior read_behavior(const JsonNode& node) {
  const std::string& name = node.string();
  if (name == "Isolated") return SplitBehavior::Isolated;
  if (name == "Removed") return SplitBehavior::Removed;
  if (name == "MergedWithPrevious") return SplitBehavior::MergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::MergedWithNext;
  if (name == "Contiguous") return SplitBehavior::Contiguous;
  node.refuse("Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

struct Pattern {
  std::string text;
  bool is_regex;
};

Pattern read_pattern(const JsonNode& node) {
  const JsonNode regex = node["Regex"];
  if (!regex.is_null()) return {regex.string(), true};
  return {node["String"].string(), false};
}

NormalizerPtr read_normalizer_step(const JsonNode& node, int depth) {
  check_depth(node, depth);
  const std::string& type = node["type"].string();
  if (type == "NFC") return make_unicode_form(UnicodeForm::Nfc);
  if (type == "NFD") return make_unicode_form(UnicodeForm::Nfd);
  if (type == "NFKC") return make_unicode_form(UnicodeForm::Nfkc);
  if (type == "NFKD") return make_unicode_form(UnicodeForm::Nfkd);
  if (type == "Lowercase") return make_lowercase();
  if (type == "Strip") {
    return make_strip(node["strip_left"].boolean_or(true), node["strip_right"].boolean_or(true));
  }
  if (type == "Prepend") return make_prepend(node["prepend"].string());
  if (type == "Replace") {
    const Pattern pattern = read_pattern(node["pattern"]);
    return make_replace(pattern.text, pattern.is_regex, node["content"].string(),
                        node["pattern"].where());
  }
  if (type == "Sequence") {
    std::vector<NormalizerPtr> steps;
    for (const JsonNode& step : node["normalizers"].items()) {
      steps.push_back(read_normalizer_step(step, depth + 1));
    }
    return make_normalizer_sequence(std::move(steps));
  }
  refuse_type(node, type, "NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace and Sequence");
}

// Collects the steps up to ByteLevel, which must come last: behind it, words are written in its
// alphabet.
class PreTokenizerReader {
 public:
  void read(const JsonNode& node, int depth) {
    check_depth(node, depth);
    const std::string& type = node["type"].string();
    require(!byte_level_, ErrorKind::Data, "{}: '{}' behind ByteLevel is not supported",
            node.where(), type);
    if (type == "Sequence") {
      for (const JsonNode& step : node["pretokenizers"].items()) read(step, depth + 1);
    } else if (type == "ByteLevel") {
      read_byte_level(node);
    } else {
      steps_.push_back(make_step(node, type));
    }
  }

  PreTokenizerPtr finish(const JsonNode& node) {
    require(byte_level_, ErrorKind::Data,
            "{}: no ByteLevel step; only byte-level BPE tokenizers are supported", node.where());
    return make_pretokenizer_sequence(std::move(steps_));
  }

 private:
  void read_byte_level(const JsonNode& node) {
    byte_level_ = true;
    if (node["add_prefix_space"].boolean_or(true)) steps_.push_back(make_prefix_space());
    if (node["use_regex"].boolean_or(true)) {
      steps_.push_back(make_split(kGpt2Pattern, SplitBehavior::Isolated, false, node.where()));
    }
  }

  static PreTokenizerPtr make_step(const JsonNode& node, const std::string& type) {
    if (type == "Split") {
      const Pattern pattern = read_pattern(node["pattern"]);
      const SplitBehavior behavior = read_behavior(node["behavior"]);
      const bool invert = node["invert"].boolean_or(false);
      const auto make = pattern.is_regex ? make_split : make_literal_split;
      return make(pattern.text, behavior, invert, node["pattern"].where());
    }
    if (type == "Digits") {
      const bool individual = node["individual_digits"].boolean_or(false);
      return make_class_split(kNumber,
                              individual ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
    }
    if (type == "Punctuation") {
      const JsonNode behavior = node["behavior"];
      return make_class_split(
          kPunctuation, behavior.is_null() ? SplitBehavior::Isolated : read_behavior(behavior));
    }
    if (type == "Whitespace") return make_whitespace_and_punctuation_split();
    if (type == "WhitespaceSplit") return make_class_split(kSpace, SplitBehavior::Removed);
    refuse_type(node, type,
                "ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit and Sequence");
  }

  std::vector<PreTokenizerPtr> steps_;
  bool byte_level_ = false;
};

}  // namespace

NormalizerPtr read_normalizer(const JsonNode& node) {
  return node.is_null() ? nullptr : read_normalizer_step(node, 0);
}

PreTokenizerPtr read_byte_level_pretokenizer(const JsonNode& node) {
  PreTokenizerReader reader;
  if (!node.is_null()) reader.read(node, 0);
  return reader.finish(node);
}

}  // namespace flywheel
