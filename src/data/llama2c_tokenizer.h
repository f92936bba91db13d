#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizer.h"

namespace flywheel {

// The tokenizer of llama2.c (tok512.bin, tokenizer.bin): a SentencePiece vocabulary with scores, in
// which 0 is unknown, 1 begins every text, 2 ends one and 3 to 258 are the bytes. Error Data names
// file and fault. It is a tokenizer.json's from here on: save() writes one.
std::unique_ptr<Tokenizer> read_llama2c_tokenizer(const std::filesystem::path& path,
                                                  std::int64_t vocab_size);

}  // namespace flywheel
