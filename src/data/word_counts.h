#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/word_rules.h"

namespace flywheel {

struct WordCount {
  std::string word;  // its bytes
  std::int64_t count = 0;
};

struct WordCountProgress {
  std::uint64_t bytes = 0;  // of the input, done
  std::uint64_t total_bytes = 0;
  std::int64_t words = 0;  // distinct
};

// The distinct words of text files (text_source.h), sorted by their bytes; the same at any number
// of threads (0: all cores). Only these words and a chunk of text for each thread are held. Text is
// read as a Tokenizer reads it; a text file is a document. `report` is called after each chunk, by
// one thread at a time. Error Data, Io.
std::vector<WordCount> count_words(const std::vector<std::filesystem::path>& files,
                                   const WordRules& rules, const std::string& text_key, int threads,
                                   const std::function<void(const WordCountProgress&)>& report);

}  // namespace flywheel
