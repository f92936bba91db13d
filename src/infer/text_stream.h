#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flywheel {

// A continuation's bytes to the text that is certain so far: whole characters (each maximal
// ill-formed part becomes U+FFFD once the next byte, or the end, shows that it is one) up to the
// first stop string. The result does not depend on where the bytes are cut.
class TextStream {
 public:
  explicit TextStream(std::vector<std::string> stop_strings = {});

  // The text that `bytes` add. Nothing more comes once stopped().
  std::string add(std::string_view bytes);
  // The text that was held back, at the end.
  std::string finish();

  // A stop string was found: of those that are complete first, the longest. It is not in the text.
  bool stopped() const { return stopped_; }

 private:
  std::string release(std::string_view characters);

  std::vector<std::string> stop_strings_;
  std::string bytes_;  // the beginning of a character
  std::string held_;   // may be the beginning of a stop string
  bool stopped_ = false;
};

}  // namespace flywheel
