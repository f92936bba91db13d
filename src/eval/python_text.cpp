#include "eval/python_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "data/utf8.h"

namespace flywheel::python {
namespace {

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

// Characters whose title case is more than one (Unicode's SpecialCasing.txt, those of Latin and
// Armenian script).
struct TitleCase {
  char32_t code_point;
  std::string_view title;
};
constexpr TitleCase kLongTitles[] = {
    {0x00DF, "Ss"},           {0x0149, "\u02BCN"},      {0x01F0, "J\u030C"},
    {0x0587, "\u0535\u0582"}, {0x1E96, "H\u0331"},      {0x1E97, "T\u0308"},
    {0x1E98, "W\u030A"},      {0x1E99, "Y\u030A"},      {0x1E9A, "A\u02BE"},
    {0xFB00, "Ff"},           {0xFB01, "Fi"},           {0xFB02, "Fl"},
    {0xFB03, "Ffi"},          {0xFB04, "Ffl"},          {0xFB05, "St"},
    {0xFB06, "St"},           {0xFB13, "\u0544\u0576"}, {0xFB14, "\u0544\u0565"},
    {0xFB15, "\u0544\u056B"}, {0xFB16, "\u054E\u0576"}, {0xFB17, "\u0544\u056D"}};

void append_title(std::string& out, char32_t c) {
  const auto* const found = std::find_if(std::begin(kLongTitles), std::end(kLongTitles),
                                         [c](const TitleCase& t) { return t.code_point == c; });
  if (found != std::end(kLongTitles)) {
    out += found->title;
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_lower(std::string& out, char32_t c) {
  if (c == 0x0130) {
    out += "i\u0307";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

}  // namespace

std::string_view lstrip(std::string_view text) {
  while (!text.empty()) {
    const DecodedChar c = decode_utf8(text.data());
    if (!is_space(c.code_point)) break;
    text.remove_prefix(static_cast<std::size_t>(c.length));
  }
  return text;
}

std::string_view rstrip(std::string_view text) {
  while (!text.empty()) {
    const DecodedChar c = decode_utf8_before(text.data() + text.size());
    if (!is_space(c.code_point)) break;
    text.remove_suffix(static_cast<std::size_t>(c.length));
  }
  return text;
}

std::string_view strip(std::string_view text) {
  return lstrip(rstrip(text));
}

std::string capitalize(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const DecodedChar c = decode_utf8(text.data() + i);
    if (i == 0) {
      append_title(result, c.code_point);
    } else {
      append_lower(result, c.code_point);
    }
    i += static_cast<std::size_t>(c.length);
  }
  return result;
}

std::string lower_first(std::string_view text) {
  if (text.empty()) return "";
  const DecodedChar c = decode_utf8(text.data());
  std::string result;
  append_lower(result, c.code_point);
  return result.append(text.substr(static_cast<std::size_t>(c.length)));
}

std::string replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t begin = 0;;) {
    const std::size_t found = text.find(from, begin);
    result += text.substr(begin, found - begin);
    if (found == std::string_view::npos) return result;
    result += to;
    begin = found + from.size();
  }
}

LastSplit split_last(std::string_view text, char separator) {
  const std::size_t at = text.rfind(separator);
  if (at == std::string_view::npos) return {"", text};
  return {text.substr(0, at), text.substr(at + 1)};
}

std::int64_t length(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

std::int64_t count_pieces(std::string_view text) {
  std::int64_t pieces = 1;
  bool in_space = false;
  for (std::size_t i = 0; i < text.size();) {
    const DecodedChar c = decode_utf8(text.data() + i);
    const bool space = is_space(c.code_point);
    pieces += space && !in_space;
    in_space = space;
    i += static_cast<std::size_t>(c.length);
  }
  return pieces;
}

std::int64_t count_words(std::string_view text) {
  const std::string_view inner = strip(text);
  return inner.empty() ? 0 : count_pieces(inner);
}

}  // namespace flywheel::python
