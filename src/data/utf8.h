#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flywheel {

struct DecodedChar {
  char32_t code_point;
  int length;  // bytes
};

// The character at `text`, which must be the start of a well-formed UTF-8 sequence.
inline DecodedChar decode_utf8(const char* text) {
  const auto byte = [text](int i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

// The character that ends just before `end` in well-formed UTF-8; `end` is not the start of the
// text.
DecodedChar decode_utf8_before(const char* end);

void append_utf8(std::string& text, char32_t code_point);

// The number of bytes at the start that are well-formed UTF-8 (Unicode 15, table 3-7).
std::size_t valid_utf8_prefix(std::string_view text);

// The number of bytes at the end that begin a character which more bytes could complete.
std::size_t unfinished_utf8(std::string_view text);

// Replaces each maximal part of an ill-formed sequence by U+FFFD, as Python's errors="replace",
// Rust's from_utf8_lossy and the Encoding Standard do.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace flywheel
