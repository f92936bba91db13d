#include "data/safe_cut.h"

namespace flywheel {
namespace {

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_lead_byte(char c) {
  return static_cast<unsigned char>(c) >= 0xC2;
}

// Whether these bytes may be a white space character outside of ASCII; generous, for quotation
// marks and dashes count as such, too (U+2000 to U+207F).
bool may_be_wide_space(std::string_view character) {
  return character.starts_with("\xC2\x85") || character.starts_with("\xC2\xA0") ||
         character.starts_with("\xE1\x9A\x80") || character.starts_with("\xE2\x80") ||
         character.starts_with("\xE2\x81") || character.starts_with("\xE3\x80\x80");
}

bool ends_visibly(std::string_view text) {
  if (text.empty()) return false;
  if (is_ascii(text.back())) return text.back() > ' ' && text.back() < 0x7F;
  const std::size_t size = text.size();
  return (size < 2 || !may_be_wide_space(text.substr(size - 2))) &&
         (size < 3 || !may_be_wide_space(text.substr(size - 3)));
}

bool begins_word(std::string_view text) {
  if (is_letter(text[0]) || is_digit(text[0])) return true;
  return is_lead_byte(text[0]) && text.size() >= 3 && !may_be_wide_space(text);
}

bool is_safe(std::string_view text, std::size_t place) {
  if (text[place] == ' ') return is_letter(text[place - 1]);
  return text[place - 1] == '\n' && begins_word(text.substr(place)) &&
         ends_visibly(text.substr(0, place - 1));
}

}  // namespace

std::size_t find_safe_cut(std::string_view text, std::size_t begin) {
  for (std::size_t place = text.size(); place > begin + 1;) {
    if (is_safe(text, --place)) return place;
  }
  return 0;
}

std::size_t last_character(std::string_view text) {
  for (std::size_t place = text.size(); place > 1;) {
    --place;
    if (is_ascii(text[place]) || is_lead_byte(text[place])) return place;
  }
  return text.size();
}

}  // namespace flywheel
