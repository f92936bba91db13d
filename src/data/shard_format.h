#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/checksum.h"

// The bytes of a token file; docs/formats.md explains them.
namespace flywheel::shard_format {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

constexpr std::uint64_t kMagic = 0x534E454B4F545746;  // "FWTOKENS"
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kStateWriting = 0;
constexpr std::uint32_t kStateComplete = 1;

// The first 128 bytes. Tokens follow, zeros up to a multiple of 8, then document_count positions
// (u64).
struct Header {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t state = kStateWriting;
  std::uint64_t token_count = 0;
  std::uint64_t document_count = 0;
  std::uint64_t vocab_size = 0;
  std::uint64_t tokenizer_fingerprint = 0;
  std::uint32_t token_bytes = 2;
  std::int32_t end_of_document = -1;
  std::uint64_t token_checksum = 0;     // XXH3 of the tokens' bytes
  std::uint64_t document_checksum = 0;  // XXH3 of the table of document positions
  std::uint64_t reserved[6] = {};
  std::uint64_t header_checksum = 0;  // XXH3 of the 120 bytes before it
};
static_assert(sizeof(Header) == 128);

inline std::uint64_t header_checksum(const Header& header) {
  return checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_checksum)));
}

constexpr std::uint64_t padded_to_8(std::uint64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

// llm.c (dev/data/data_common.py) and modded-nanogpt: 256 int32 (magic, version, count, 0...), then
// the tokens.
struct ForeignFormat {
  std::int32_t magic;
  std::int32_t version;
  int token_bytes;
  std::int32_t end_of_document;  // by convention of the tokenizer that these files are made with
};
constexpr std::size_t kForeignHeaderBytes = 1024;
constexpr ForeignFormat kForeignFormats[] = {
    {20240520, 1, 2, 50256},   // GPT-2
    {20240801, 7, 4, 128000},  // Llama 3
};
constexpr std::int32_t kForeignEvaluationMagic = 20240522;  // llm.c's multiple-choice files

}  // namespace flywheel::shard_format
