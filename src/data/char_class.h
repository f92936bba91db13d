#pragma once

#include <cstdint>
#include <span>

namespace flywheel {

// What pre-tokenizers ask of a character; bits of char_classes()[code point].
inline constexpr std::uint8_t kLetter = 1;        // general category L*
inline constexpr std::uint8_t kNumber = 2;        // general category N*
inline constexpr std::uint8_t kSpace = 4;         // property White_Space
inline constexpr std::uint8_t kNewline = 8;       // carriage return and line feed
inline constexpr std::uint8_t kPunctuation = 16;  // general category P*, and all ASCII punctuation
inline constexpr std::uint8_t kWord = 32;  // \w of UTS 18: Alphabetic, M*, Nd, Pc, Join_Control

struct CodePointRange {
  std::int32_t first, last;
};

// Letters and numbers that Unicode 15 and 16 added. The reference library knows them; the
// distributions' utf8proc and PCRE2 do not or not all.
std::span<const CodePointRange> recent_letters();
std::span<const CodePointRange> recent_numbers();

// One entry for each of the 0x110000 code points, made from utf8proc's tables and the above on
// first use.
const std::uint8_t* char_classes();

}  // namespace flywheel
