#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/file_io.h"

namespace flywheel {

// What a token file says of itself (docs/formats.md has the bytes).
struct ShardInfo {
  std::string format;  // "flywheel", "llm.c" or "modded-nanogpt"
  int token_bytes = 2;  // 2 or 4
  std::int64_t tokens = 0;
  std::int64_t documents = 0;               // 0: unknown (foreign formats)
  std::int64_t vocab_size = 0;              // 0: unknown
  std::uint64_t tokenizer_fingerprint = 0;  // 0: unknown
  std::int32_t end_of_document = -1;        // begins every document; -1: unknown
  std::uint64_t checksum = 0;               // of the tokens, XXH3; 0: unknown
};

// A token file, memory-mapped. Opening checks magic, version, sizes; Error Data names file and fault.
class ShardReader {
 public:
  explicit ShardReader(const std::filesystem::path& path);

  const ShardInfo& info() const { return info_; }
  const std::filesystem::path& path() const { return file_.path(); }
  // Tokens [begin, begin + out.size()); Error Data for a token of `info().vocab_size` or more.
  void read(std::int64_t begin, std::span<std::int32_t> out) const;
  // Positions at which documents begin, ascending; empty where the file does not list them.
  std::span<const std::uint64_t> document_starts() const { return document_starts_; }
  void verify_checksum() const;  // reads everything; Error Data

 private:
  MappedFile file_;
  ShardInfo info_;
  std::span<const std::byte> tokens_;
  std::span<const std::uint64_t> document_starts_;
};

// Writes one shard: document by document, each begun by the end-of-document id.
class ShardWriter {
 public:
  // info: token_bytes, vocab_size, tokenizer_fingerprint, end_of_document.
  ShardWriter(const std::filesystem::path& path, const ShardInfo& info);
  void add_document(std::span<const std::int32_t> tokens);  // without the end-of-document id
  std::int64_t tokens() const;
  void close();  // completes the header; a shard that was not closed is refused by the reader

 private:
  FileWriter file_;
  ShardInfo info_;
  std::vector<std::uint64_t> document_starts_;
};

}  // namespace flywheel
