#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace flywheel {

// Rewrites a text (well-formed UTF-8) before it is cut into pieces.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // False if the text stays as it is; `result` is then untouched.
  virtual bool apply(std::string_view text, std::string& result) const = 0;
  // Equal for equal rewriting; part of the tokenizer's fingerprint.
  virtual std::string description() const = 0;
};

using NormalizerPtr = std::unique_ptr<Normalizer>;

// Unicode's normalization forms (UAX 15).
enum class UnicodeForm { Nfc, Nfd, Nfkc, Nfkd };

NormalizerPtr make_unicode_form(UnicodeForm form);
NormalizerPtr make_lowercase();
NormalizerPtr make_strip(bool left, bool right);  // whitespace at the ends
NormalizerPtr make_prepend(std::string prefix);   // to every text that is not empty
// Each match of the pattern becomes `content`. `where` names file and key in errors.
NormalizerPtr make_replace(std::string_view pattern, bool is_regex, std::string content,
                           const std::string& where);
NormalizerPtr make_normalizer_sequence(std::vector<NormalizerPtr> steps);

}  // namespace flywheel
