#pragma once

#include <cstdint>
#include <filesystem>

#include "data/tokenizer.h"

namespace flywheel {

struct TokenizerMarks {
  std::int32_t begin = -1;  // -1: none
  bool begin_every_prompt = false;
  std::int32_t end = -1;
  std::int64_t max_length = 0;
};

// Writes tokenizer.json and tokenizer_config.json, which transformers opens. GPT-2's pair of files
// and "byte" become a tokenizer.json, too.
void write_tokenizer_files(const Tokenizer& tokenizer, const std::filesystem::path& folder,
                           const TokenizerMarks& marks);

}  // namespace flywheel
