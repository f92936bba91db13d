#include "data/pattern_scanner.h"

#include "data/char_class.h"
#include "data/utf8.h"

namespace flywheel {

namespace {

using Classes = const unsigned char*;

struct ClassedChar {
  unsigned char bits;
  int length;
};

inline ClassedChar classify(const char* p, Classes classes) {
  const auto byte = static_cast<unsigned char>(*p);
  if (byte < 0x80) return {classes[byte], 1};
  const DecodedChar c = decode_utf8(p);
  return {classes[c.code_point], c.length};
}

inline bool is_other(unsigned char bits) {
  return (bits & (kLetter | kNumber | kSpace)) == 0;
}

inline const char* skip_class(const char* p, const char* end, unsigned char wanted,
                              Classes classes) {
  while (p < end) {
    const ClassedChar c = classify(p, classes);
    if ((c.bits & wanted) == 0) break;
    p += c.length;
  }
  return p;
}

inline const char* skip_other(const char* p, const char* end, Classes classes) {
  while (p < end) {
    const ClassedChar c = classify(p, classes);
    if (!is_other(c.bits)) break;
    p += c.length;
  }
  return p;
}

inline const char* skip_newlines(const char* p, const char* end) {
  while (p < end && (*p == '\r' || *p == '\n')) ++p;
  return p;
}

// 's 't 're 've 'm 'll 'd after an apostrophe at `p`; null when none follows.
template <bool kAnyCase>
const char* contraction_end(const char* p, const char* end) {
  const auto letter = [&](int i) {
    if (end - p <= i) return '\0';
    const char c = p[i];
    return kAnyCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char second = letter(2);
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return p + 2;
    case 'r':
    case 'v':
      return second == 'e' ? p + 3 : nullptr;
    case 'l':
      return second == 'l' ? p + 3 : nullptr;
    case '\xC5':  // U+017F, the long s, is an s to a pattern without case
      return kAnyCase && second == '\xBF' ? p + 3 : nullptr;
    default:
      return nullptr;
  }
}

// `\s+(?!\S)|\s+` for whitespace at `p`: the whole run at the end of the text, else all but its
// last character, else that character.
const char* space_end(const char* p, const char* end, Classes classes) {
  const char* last = p;
  const char* next = p;
  while (next < end) {
    const ClassedChar c = classify(next, classes);
    if ((c.bits & kSpace) == 0) return last == p ? next : last;
    last = next;
    next += c.length;
  }
  return end;
}

const char* scan_gpt2(const char* p, const char* end, Classes classes) {
  if (*p == '\'') {
    if (const char* stop = contraction_end<false>(p, end)) return stop;
  }
  const char* const start = *p == ' ' && end - p > 1 ? p + 1 : p;
  const ClassedChar c = classify(start, classes);
  const char* const rest = start + c.length;
  if (c.bits & kLetter) return skip_class(rest, end, kLetter, classes);
  if (c.bits & kNumber) return skip_class(rest, end, kNumber, classes);
  if (is_other(c.bits)) return skip_other(rest, end, classes);
  return space_end(p, end, classes);
}

const char* numbers_end(const char* p, const char* end, int most, Classes classes) {
  for (int i = 0; i < most && p < end; ++i) {
    const ClassedChar c = classify(p, classes);
    if ((c.bits & kNumber) == 0) break;
    p += c.length;
  }
  return p;
}

// `\s*[\r\n]+|\s+(?!\S)|\s+` for whitespace at `p`.
const char* space_or_lines_end(const char* p, const char* end, Classes classes) {
  const char* after_newline = nullptr;
  for (const char* q = p; q < end;) {
    const ClassedChar c = classify(q, classes);
    if ((c.bits & kSpace) == 0) break;
    q += c.length;
    if (c.bits & kNewline) after_newline = q;
  }
  return after_newline ? after_newline : space_end(p, end, classes);
}

template <int kNumbers>
const char* scan_qwen(const char* p, const char* end, Classes classes) {
  if (*p == '\'') {
    if (const char* stop = contraction_end<true>(p, end)) return stop;
  }
  const ClassedChar first = classify(p, classes);
  const char* const second = p + first.length;
  if (first.bits & kLetter) return skip_class(second, end, kLetter, classes);
  if (first.bits & kNumber) return numbers_end(p, end, kNumbers, classes);
  const ClassedChar next = second < end ? classify(second, classes) : ClassedChar{kSpace, 0};
  if ((first.bits & kNewline) == 0 && (next.bits & kLetter)) {
    return skip_class(second + next.length, end, kLetter, classes);
  }
  if (is_other(first.bits) || (*p == ' ' && is_other(next.bits))) {
    return skip_newlines(skip_other(second, end, classes), end);
  }
  return space_or_lines_end(p, end, classes);
}

}  // namespace

Scanner scanner_for(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return scan_gpt2;
  if (pattern == kQwenPattern) return scan_qwen<1>;
  if (pattern == kLlama3Pattern) return scan_qwen<3>;
  return nullptr;
}

}  // namespace flywheel
