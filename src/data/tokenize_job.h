#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace flywheel {

struct TokenizeConfig {
  std::vector<std::string> inputs;    // files, folders, patterns (data/input_files.h)
  std::filesystem::path output;       // folder for train_*.bin and validation_*.bin
  std::string text_key = "text";      // of JSONL
  std::string document_separator;     // of text files (TextSource)
  double validation_fraction = 0.01;  // of the documents, chosen by a hash of their text
  std::uint64_t seed = 0;             // of that choice
  std::int64_t shard_tokens = 100'000'000;
  int threads = 0;         // 0: all cores
  bool overwrite = false;  // replace the token files that `output` holds
};

struct TokenizeProgress {
  std::uint64_t bytes = 0;  // of the input, done
  std::uint64_t total_bytes = 0;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
};

struct TokenizeSummary {
  struct Split {
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
    std::int64_t shards = 0;
  };
  Split train;
  Split validation;
  std::uint64_t text_bytes = 0;  // of the documents
};

// Tokenizes files into shards. The result is the same at any number of threads. `report` is called
// after each chunk, by one thread at a time. On any error the folder is left as it was. Error
// Config, Data, Io.
TokenizeSummary tokenize_files(const Tokenizer& tokenizer, const TokenizeConfig& config,
                               const std::function<void(const TokenizeProgress&)>& report);

}  // namespace flywheel
