#include "infer/text_stream.h"

#include <algorithm>

#include "data/utf8.h"

namespace flywheel {
namespace {

// The longest end of `text` that is a beginning of `stop`, but not all of it.
std::size_t overlap(std::string_view text, std::string_view stop) {
  std::size_t length = std::min(text.size(), stop.size() - 1);
  while (!text.ends_with(stop.substr(0, length))) --length;
  return length;
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stop_strings)
    : stop_strings_(std::move(stop_strings)) {
  std::erase(stop_strings_, "");
}

std::string TextStream::add(std::string_view bytes) {
  if (stopped_) return {};
  bytes_ += bytes;
  const std::size_t whole = bytes_.size() - unfinished_utf8(bytes_);
  const std::string characters = replace_invalid_utf8(std::string_view(bytes_).substr(0, whole));
  bytes_.erase(0, whole);
  return release(characters);
}

std::string TextStream::finish() {
  if (stopped_) return {};
  std::string text = release(replace_invalid_utf8(bytes_));
  bytes_.clear();
  if (!stopped_) text += held_;
  held_.clear();
  return text;
}

std::string TextStream::release(std::string_view characters) {
  held_ += characters;
  std::size_t begin = std::string::npos;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stop_strings_) {
    const std::size_t found = held_.find(stop);
    if (found == std::string::npos) continue;
    const std::size_t after = found + stop.size();
    if (after > end || (after == end && found > begin)) continue;
    begin = found;
    end = after;
  }
  stopped_ = begin != std::string::npos;
  std::size_t certain = begin;
  if (!stopped_) {
    std::size_t longest = 0;
    for (const std::string& stop : stop_strings_) longest = std::max(longest, overlap(held_, stop));
    certain = held_.size() - longest;
  }
  std::string text = held_.substr(0, certain);
  held_.erase(0, certain);
  return text;
}

}  // namespace flywheel
