#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/checksum.h"
#include "core/file_io.h"

namespace flywheel {

// What a token file says of itself (docs/formats.md has the bytes).
struct ShardInfo {
  std::string format;   // "flywheel" or "llm.c" (modded-nanogpt writes the latter, too)
  int token_bytes = 2;  // 2 or 4
  std::int64_t tokens = 0;
  std::int64_t documents = 0;   // documents that begin here; 0: unknown (foreign formats)
  std::int64_t vocab_size = 0;  // 0: unknown
  std::uint64_t tokenizer_fingerprint = 0;  // 0: unknown
  std::int32_t end_of_document = -1;        // begins every document; -1: there is none
  std::uint64_t checksum = 0;               // of the tokens, XXH3; 0: unknown
};

// A token file, memory-mapped. Opening checks magic, version, sizes; Error Data names file and
// fault.
class ShardReader {
 public:
  explicit ShardReader(const std::filesystem::path& path);

  const ShardInfo& info() const { return info_; }
  const std::filesystem::path& path() const { return file_.path(); }
  // Tokens [begin, begin + out.size()); Error Data for a token of `info().vocab_size` or more
  // (where that is unknown, one that does not fit int32).
  void read(std::int64_t begin, std::span<std::int32_t> out) const;
  // Positions at which documents begin, ascending; empty where the file does not list them. The
  // tokens before the first one continue the last document of the shard before.
  std::span<const std::uint64_t> document_starts() const { return document_starts_; }
  // Changes when the file's size, its header (with the checksum of all tokens) or its last bytes
  // do.
  std::uint64_t fingerprint() const;
  void verify_checksum() const;  // reads everything; Error Data

 private:
  void open_own();
  void open_foreign();

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
  // The same in pieces; tokens that are appended before the first begin_document() continue the
  // last document of the shard before. Error Data for a token outside of the vocabulary.
  void begin_document();
  void append(std::span<const std::int32_t> tokens);

  std::int64_t tokens() const { return info_.tokens; }
  void close();  // completes the header; a shard that was not closed is refused by the reader

 private:
  std::filesystem::path path_;
  FileWriter file_;
  ShardInfo info_;
  StreamingChecksum checksum_;
  std::vector<std::uint64_t> document_starts_;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace flywheel
