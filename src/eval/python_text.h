#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Python's string methods, which published prompts and scores are defined by. Texts are well-formed
// UTF-8; lengths are code points; whitespace is what str.isspace() and the regular expression \s
// take for it.
namespace flywheel::python {

std::string_view lstrip(std::string_view text);
std::string_view rstrip(std::string_view text);
std::string_view strip(std::string_view text);

// The first character in title case, the others in lower case. A final sigma stays a medial one.
std::string capitalize(std::string_view text);
// text[0].lower() + text[1:]
std::string lower_first(std::string_view text);

// One pass from the left.
std::string replace(std::string_view text, std::string_view from, std::string_view to);
// text.rsplit(separator, 1): before and after the last one; {"", text} without any.
struct LastSplit {
  std::string_view before, after;
};
LastSplit split_last(std::string_view text, char separator);

std::int64_t length(std::string_view text);
// len(re.split(r"\s+", text)): an empty piece at either end counts.
std::int64_t count_pieces(std::string_view text);
// len(text.split())
std::int64_t count_words(std::string_view text);

}  // namespace flywheel::python
