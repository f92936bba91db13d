#include "data/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace flywheel {

namespace {

struct Sequence {
  int length;  // of the sequence, or of the maximal ill-formed part
  bool valid;
  bool cut = false;  // not valid because the text ends here
};

Sequence sequence_at(const unsigned char* p, const unsigned char* end) {
  const unsigned first = *p;
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // Only the second byte's range depends on the first: no overlong forms, surrogates, or more than
  // U+10FFFF.
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (int i = 1; i < length; ++i) {
    if (p + i == end) return {i, false, true};
    if (p[i] < low || p[i] > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

const unsigned char* skip_ascii(const unsigned char* p, const unsigned char* end) {
  for (; end - p >= 8; p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, sizeof word);
    if (word & 0x8080808080808080u) break;
  }
  while (p < end && *p < 0x80) ++p;
  return p;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

DecodedChar decode_utf8_before(const char* end) {
  const char* p = end - 1;
  while ((static_cast<unsigned char>(*p) & 0xC0) == 0x80) --p;
  return decode_utf8(p);
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto put_tail = [&](int shift) { put(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put_tail(0);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put_tail(6);
    put_tail(0);
  } else {
    put(0xF0 | code_point >> 18);
    put_tail(12);
    put_tail(6);
    put_tail(0);
  }
}

std::size_t valid_utf8_prefix(std::string_view text) {
  const unsigned char* const begin = bytes_of(text);
  const unsigned char* const end = begin + text.size();
  const unsigned char* p = begin;
  while ((p = skip_ascii(p, end)) < end) {
    const Sequence sequence = sequence_at(p, end);
    if (!sequence.valid) break;
    p += sequence.length;
  }
  return static_cast<std::size_t>(p - begin);
}

std::size_t unfinished_utf8(std::string_view text) {
  const unsigned char* const end = bytes_of(text) + text.size();
  for (std::size_t length = 1; length <= std::min<std::size_t>(3, text.size()); ++length) {
    if (sequence_at(end - length, end).cut) return length;
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size() + 16);
  while (true) {
    const std::size_t valid = valid_utf8_prefix(text);
    result.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return result;
    const unsigned char* const p = bytes_of(text);
    text.remove_prefix(static_cast<std::size_t>(sequence_at(p, p + text.size()).length));
    append_utf8(result, 0xFFFD);
  }
}

}  // namespace flywheel
