#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "support/test_data.h"

namespace flywheel::test {

using Ids = std::vector<std::int32_t>;

inline Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

inline std::unique_ptr<Tokenizer> load_golden_tokenizer(const std::string& style) {
  return Tokenizer::load(golden("tokenizers/" + style).string());
}

inline std::vector<std::string> golden_lines(const std::string& name) {
  std::ifstream file(golden("tokenizers/" + name));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The difficult texts of tests/golden/tokenizers, some of them ill-formed UTF-8.
inline std::vector<std::string> difficult_texts() {
  std::vector<std::string> texts;
  for (const std::string& hex : golden_lines("texts.hex")) {
    std::string text;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
      text.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    texts.push_back(text);
  }
  return texts;
}

// The ids that the reference library gives for them, under golden/tokenizers/NAME.ids.
inline std::vector<Ids> golden_ids(const std::string& name) {
  std::vector<Ids> all;
  for (const std::string& line : golden_lines(name + ".ids")) {
    std::istringstream words(line);
    Ids ids;
    for (std::int32_t id = 0; words >> id;) ids.push_back(id);
    all.push_back(ids);
  }
  return all;
}

// A text with invisible characters written out, for failing tests.
inline std::string escaped(std::string_view text) {
  std::ostringstream result;
  for (const char c : text) {
    if (c >= 0x20 && c < 0x7F) {
      result << c;
    } else {
      result << "\\x" << std::hex << (static_cast<unsigned>(c) & 0xFF);
    }
  }
  return result.str();
}

}  // namespace flywheel::test
