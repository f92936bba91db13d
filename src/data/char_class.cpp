#include "data/char_class.h"

#include <utf8proc.h>

#include <vector>

namespace flywheel {

namespace {

constexpr int kCodePoints = 0x110000;

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
  return classes;
}

}  // namespace

const std::uint8_t* char_classes() {
  static const std::vector<std::uint8_t> classes = make_classes();
  return classes.data();
}

}  // namespace flywheel
