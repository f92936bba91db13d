#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/shard.h"

namespace flywheel::test {

using Tokens = std::vector<std::int32_t>;

// A shard of ours; documents come without the end-of-document id 0.
inline void write_shard(const std::filesystem::path& path, const std::vector<Tokens>& documents,
                        std::int64_t vocab_size = 50257, int token_bytes = 2,
                        std::uint64_t tokenizer_fingerprint = 7) {
  ShardInfo info;
  info.token_bytes = token_bytes;
  info.vocab_size = vocab_size;
  info.tokenizer_fingerprint = tokenizer_fingerprint;
  info.end_of_document = 0;
  ShardWriter writer(path, info);
  for (const Tokens& document : documents) writer.add_document(document);
  writer.close();
}

// A file in llm.c's format: 256 int32 of header, then the tokens.
template <class Token>
void write_foreign_shard(const std::filesystem::path& path, std::int32_t magic,
                         std::int32_t version, const std::vector<Token>& tokens) {
  std::int32_t header[256] = {magic, version, static_cast<std::int32_t>(tokens.size())};
  FileWriter writer(path);
  writer.write(std::as_bytes(std::span(header)));
  writer.write(std::as_bytes(std::span(tokens)));
  writer.close();
}

inline Tokens read_all(const ShardReader& shard) {
  Tokens tokens(static_cast<std::size_t>(shard.info().tokens));
  shard.read(0, tokens);
  return tokens;
}

}  // namespace flywheel::test
