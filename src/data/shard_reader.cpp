#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "data/shard.h"
#include "data/shard_format.h"

namespace flywheel {
namespace {

using namespace shard_format;

constexpr std::int64_t kTokenLimit = std::int64_t{1} << 31;

template <class T>
std::span<const T> view_as(std::span<const std::byte> bytes) {
  return {static_cast<const T*>(static_cast<const void*>(bytes.data())), bytes.size() / sizeof(T)};
}

void require_size(const MappedFile& file, std::uint64_t expected, std::uint64_t tokens) {
  const std::uint64_t actual = file.bytes().size();
  require(actual == expected, ErrorKind::Data,
          "{}: {} ({} bytes, but its header states {} tokens and so {} bytes); copy it again or "
          "tokenize again",
          file.path().string(), actual < expected ? "truncated" : "has bytes behind its end",
          actual, tokens, expected);
}

// Widens tokens and returns the largest.
template <class T>
std::uint32_t widen(std::span<const T> tokens, std::int32_t* out) {
  std::uint32_t largest = 0;
  for (const T token : tokens) {
    largest = std::max<std::uint32_t>(largest, token);
    *out++ = static_cast<std::int32_t>(token);
  }
  return largest;
}

}  // namespace

ShardReader::ShardReader(const std::filesystem::path& path) : file_(path) {
  const auto bytes = file_.bytes();
  std::uint64_t magic = 0;
  require(bytes.size() >= sizeof(magic), ErrorKind::Data,
          "{}: {} bytes are no token file; make token files with `tokenize`", path.string(),
          bytes.size());
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  if (magic == kMagic) {
    open_own();
  } else {
    open_foreign();
  }
}

void ShardReader::open_own() {
  const std::string name = path().string();
  const auto bytes = file_.bytes();
  Header header;
  require(bytes.size() >= sizeof(header), ErrorKind::Data,
          "{}: truncated ({} bytes, the header alone has {}); copy it again or tokenize again",
          name, bytes.size(), sizeof(header));
  std::memcpy(&header, bytes.data(), sizeof(header));
  require(header.version == kVersion, ErrorKind::Data,
          "{}: token file version {}, but this program reads version {}; tokenize again", name,
          header.version, kVersion);
  require(header.state == kStateComplete, ErrorKind::Data,
          "{}: was not completed (the program that wrote it was stopped); tokenize again", name);
  require(header.header_checksum == header_checksum(header), ErrorKind::Data,
          "{}: damaged header (checksum {}, expected {}); copy it again or tokenize again", name,
          checksum_text(header_checksum(header)), checksum_text(header.header_checksum));
  require(header.token_bytes == 2 || header.token_bytes == 4, ErrorKind::Data,
          "{}: {} bytes a token; expected 2 or 4", name, header.token_bytes);
  require(header.vocab_size >= 1 && header.vocab_size <= std::uint64_t{kTokenLimit} &&
              (header.token_bytes == 4 || header.vocab_size <= 65536),
          ErrorKind::Data, "{}: a vocabulary of {} ids does not fit {} bytes a token", name,
          header.vocab_size, header.token_bytes);
  require(header.end_of_document >= -1 &&
              header.end_of_document < static_cast<std::int64_t>(header.vocab_size),
          ErrorKind::Data, "{}: end-of-document id {} is outside of the vocabulary of {} ids", name,
          header.end_of_document, header.vocab_size);
  const std::uint64_t limit = std::numeric_limits<std::uint64_t>::max() / 32;
  require(header.token_count < limit && header.document_count <= header.token_count,
          ErrorKind::Data, "{}: {} tokens and {} documents cannot be", name, header.token_count,
          header.document_count);

  const std::uint64_t token_bytes = header.token_count * header.token_bytes;
  const std::uint64_t table = sizeof(header) + padded_to_8(token_bytes);
  require_size(file_, table + header.document_count * 8, header.token_count);
  tokens_ = bytes.subspan(sizeof(header), token_bytes);
  document_starts_ = view_as<std::uint64_t>(bytes.subspan(table));
  const bool ascending = std::adjacent_find(document_starts_.begin(), document_starts_.end(),
                                            std::greater_equal<>()) == document_starts_.end();
  require(ascending && (document_starts_.empty() || document_starts_.back() < header.token_count),
          ErrorKind::Data, "{}: damaged table of documents; copy it again or tokenize again", name);

  info_ = {"flywheel",
           static_cast<int>(header.token_bytes),
           static_cast<std::int64_t>(header.token_count),
           static_cast<std::int64_t>(header.document_count),
           static_cast<std::int64_t>(header.vocab_size),
           header.tokenizer_fingerprint,
           header.end_of_document,
           header.token_checksum};
}

void ShardReader::open_foreign() {
  const std::string name = path().string();
  std::int32_t header[3] = {};  // magic, version, count
  std::memcpy(header, file_.bytes().data(), 2 * sizeof(std::int32_t));
  require(header[0] != kForeignEvaluationMagic, ErrorKind::Data,
          "{}: an evaluation file of llm.c; expected token files for training", name);
  const auto* const format =
      std::find_if(std::begin(kForeignFormats), std::end(kForeignFormats),
                   [&](const ForeignFormat& known) { return known.magic == header[0]; });
  require(format != std::end(kForeignFormats), ErrorKind::Data,
          "{}: not a token file (magic number {}); expected one made by `tokenize`, llm.c or "
          "modded-nanogpt",
          name, header[0]);
  require(header[1] == format->version, ErrorKind::Data,
          "{}: llm.c token file version {}; expected version {} for magic number {}", name,
          header[1], format->version, format->magic);
  require(file_.bytes().size() >= kForeignHeaderBytes, ErrorKind::Data,
          "{}: truncated ({} bytes, the header of llm.c's format alone has {}); copy it again",
          name, file_.bytes().size(), kForeignHeaderBytes);
  std::memcpy(header, file_.bytes().data(), sizeof(header));
  require(header[2] >= 0, ErrorKind::Data,
          "{}: states {} tokens; a file of llm.c's format holds at most 2147483647", name,
          header[2]);
  const std::uint64_t token_bytes = static_cast<std::uint64_t>(header[2]) * format->token_bytes;
  require_size(file_, kForeignHeaderBytes + token_bytes, static_cast<std::uint64_t>(header[2]));
  tokens_ = file_.bytes().subspan(kForeignHeaderBytes);
  info_.format = "llm.c";
  info_.token_bytes = format->token_bytes;
  info_.tokens = header[2];
  info_.end_of_document = format->end_of_document;
}

void ShardReader::read(std::int64_t begin, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  require(begin >= 0 && begin <= info_.tokens - count, ErrorKind::Internal,
          "{}: tokens [{}, {}) asked for, but it holds {}", path().string(), begin, begin + count,
          info_.tokens);
  const auto bytes = tokens_.subspan(static_cast<std::size_t>(begin * info_.token_bytes),
                                     out.size() * static_cast<std::size_t>(info_.token_bytes));
  const std::uint32_t largest = info_.token_bytes == 2
                                    ? widen(view_as<std::uint16_t>(bytes), out.data())
                                    : widen(view_as<std::uint32_t>(bytes), out.data());
  const std::int64_t limit = info_.vocab_size > 0 ? info_.vocab_size : kTokenLimit;
  require(out.empty() || largest < limit, ErrorKind::Data,
          "{}: token {} among tokens {} to {}, but the vocabulary ends at {}; copy it again or "
          "tokenize again",
          path().string(), largest, begin, begin + count - 1, limit - 1);
}

std::uint64_t ShardReader::fingerprint() const {
  constexpr std::size_t kEnd = 65536;
  const auto bytes = file_.bytes();
  const std::uint64_t size = bytes.size();
  StreamingChecksum sum;
  sum.update(std::as_bytes(std::span(&size, 1)));
  sum.update(bytes.first(std::min(kEnd, bytes.size())));
  sum.update(bytes.last(std::min(kEnd, bytes.size())));
  return sum.value();
}

void ShardReader::verify_checksum() const {
  if (info_.format != "flywheel") return;
  Header header;
  std::memcpy(&header, file_.bytes().data(), sizeof(header));
  require(checksum(tokens_) == header.token_checksum &&
              checksum(std::as_bytes(document_starts_)) == header.document_checksum,
          ErrorKind::Data,
          "{}: damaged (its content has another checksum than its header states); "
          "copy it again or tokenize again",
          path().string());
}

}  // namespace flywheel
