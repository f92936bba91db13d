#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/word_counts.h"

namespace flywheel {

struct BpeTrainConfig {
  std::vector<std::string> inputs;    // files, folders, patterns (data/input_files.h)
  std::filesystem::path output;       // the tokenizer.json
  std::int64_t vocab_size = 0;        // with the 256 bytes and the special tokens
  std::string pretokenizer = "gpt2";  // or a tokenizer.json (data/word_rules.h)
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  std::string text_key = "text";  // of JSONL
  int threads = 0;                // 0: all cores
};

struct BpeTrainProgress {
  WordCountProgress counting;
  std::int64_t tokens = 0;  // of the vocabulary; 0 while words are counted
};

struct BpeTrainSummary {
  std::uint64_t bytes = 0;  // of the input
  std::int64_t words = 0;   // distinct
  std::int64_t tokens = 0;  // less than vocab_size if no pair was left to join
  std::int64_t merges = 0;
};

// Trains a byte-level BPE tokenizer (data/bpe_trainer.h) and writes it, whole or not at all. The
// file is the same at any number of threads. Error Config, Data, Io.
BpeTrainSummary train_bpe(const BpeTrainConfig& config,
                          const std::function<void(const BpeTrainProgress&)>& report);

}  // namespace flywheel
