#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/tokenizer.h"

namespace flywheel::test {

// Splits text as GPT-2's pattern does for ASCII ( ?letters| ?digits| ?others|white space) and gives
// each pre-token a hash as its id: any cut in the wrong place shows in the ids.
class FakeTokenizer : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    require(text.find("poison") == std::string_view::npos, ErrorKind::Internal, "poisoned");
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = end_of_pretoken(text, begin);
      std::uint32_t hash = 2166136261U;
      for (const char c : text.substr(begin, end - begin)) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
      }
      ids.push_back(static_cast<std::int32_t>(hash % 100'000));
      begin = end;
    }
  }
  std::string decode(std::span<const std::int32_t>) const override { return {}; }
  std::int64_t vocab_size() const override { return 100'001; }
  std::int32_t end_of_document() const override { return 100'000; }
  std::uint64_t fingerprint() const override { return 42; }
  void save(const std::filesystem::path&) const override {}

 private:
  enum class Class { Space, Letter, Digit, Other };
  static Class class_of(char c) {
    if (c == ' ' || (c >= '\t' && c <= '\r')) return Class::Space;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & '\x80') != 0) return Class::Letter;
    return c >= '0' && c <= '9' ? Class::Digit : Class::Other;
  }
  static std::size_t end_of_run(std::string_view text, std::size_t begin) {
    std::size_t end = begin;
    while (end < text.size() && class_of(text[end]) == class_of(text[begin])) ++end;
    return end;
  }
  static std::size_t end_of_pretoken(std::string_view text, std::size_t begin) {
    if (class_of(text[begin]) != Class::Space) return end_of_run(text, begin);
    const std::size_t end = end_of_run(text, begin);
    if (end == text.size()) return end;   // \s+(?!\S)
    if (end - begin > 1) return end - 1;  // the same, one back
    return text[begin] == ' ' ? end_of_run(text, end) : end;
  }
};

}  // namespace flywheel::test
