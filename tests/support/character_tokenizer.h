#pragma once

#include "data/tokenizer.h"

namespace flywheel::test {

// A token a character; '<' begins a text.
class CharacterTokenizer : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (const char c : text) ids.push_back(c);
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return {ids.begin(), ids.end()};
  }
  std::int64_t vocab_size() const override { return 128; }
  std::int32_t end_of_document() const override { return '<'; }
  std::uint64_t fingerprint() const override { return 1; }
  void save(const std::filesystem::path&) const override {}
};

}  // namespace flywheel::test
