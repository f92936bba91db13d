#include "data/char_class.h"

#include <utf8proc.h>

#include <vector>

namespace flywheel {

namespace {

constexpr int kCodePoints = 0x110000;

constexpr CodePointRange kRecentLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
    {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x1123F, 0x11240},
    {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5},
    {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0},
    {0x11F02, 0x11F02}, {0x11F04, 0x11F10}, {0x11F12, 0x11F33}, {0x1342F, 0x1342F},
    {0x13441, 0x13446}, {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C},
    {0x18CFF, 0x18CFF}, {0x1B132, 0x1B132}, {0x1B155, 0x1B155}, {0x1DF25, 0x1DF2A},
    {0x1E030, 0x1E06D}, {0x1E4D0, 0x1E4EB}, {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0},
    {0x2B739, 0x2B739}, {0x2EBF0, 0x2EE5D}, {0x31350, 0x323AF}};
constexpr CodePointRange kRecentNumbers[] = {
    {0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x11F50, 0x11F59},
    {0x16130, 0x16139}, {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1D2C0, 0x1D2D3},
    {0x1E4F0, 0x1E4F9}, {0x1E5F1, 0x1E5FA}};

bool is_white_space(int c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// The Alphabetic characters that are neither letters, letter numbers nor marks; and the
// Join_Controls.
bool is_other_word(int c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C ||
         c == 0x200D;
}

bool is_ascii_punctuation(int c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
         (c >= 0x7B && c <= 0x7E);
}

std::uint8_t class_of_category(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter | kWord;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
      return kNumber | kWord;
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kWord;
    case UTF8PROC_CATEGORY_PC:
      return kPunctuation | kWord;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation;
    default:
      return 0;
  }
}

std::vector<std::uint8_t> make_classes() {
  std::vector<std::uint8_t> classes(kCodePoints);
  for (int c = 0; c < kCodePoints; ++c) {
    unsigned bits = class_of_category(utf8proc_category(c));
    if (is_white_space(c)) bits |= kSpace;
    if (c == '\r' || c == '\n') bits |= kNewline;
    if (is_ascii_punctuation(c)) bits |= kPunctuation;
    if (is_other_word(c)) bits |= kWord;
    classes[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(bits);
  }
  const auto add = [&classes](std::span<const CodePointRange> ranges, std::uint8_t bits) {
    for (const CodePointRange range : ranges) {
      for (int c = range.first; c <= range.last; ++c) classes[static_cast<std::size_t>(c)] = bits;
    }
  };
  add(kRecentLetters, kLetter | kWord);
  add(kRecentNumbers, kNumber | kWord);
  return classes;
}

}  // namespace

std::span<const CodePointRange> recent_letters() {
  return kRecentLetters;
}
std::span<const CodePointRange> recent_numbers() {
  return kRecentNumbers;
}

const std::uint8_t* char_classes() {
  static const std::vector<std::uint8_t> classes = make_classes();
  return classes.data();
}

}  // namespace flywheel
