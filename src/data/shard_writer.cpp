#include <algorithm>

#include "core/error.h"
#include "data/shard.h"
#include "data/shard_format.h"

namespace flywheel {

using namespace shard_format;

ShardWriter::ShardWriter(const std::filesystem::path& path, const ShardInfo& info)
    : path_(path), file_(path), info_(info) {
  require(info.token_bytes == 2 || info.token_bytes == 4, ErrorKind::Internal,
          "{}: {} bytes a token; expected 2 or 4", path.string(), info.token_bytes);
  require(
      info.vocab_size >= 1 && info.vocab_size <= (info.token_bytes == 2 ? 1LL << 16 : 1LL << 31),
      ErrorKind::Internal, "{}: a vocabulary of {} ids does not fit {} bytes a token",
      path.string(), info.vocab_size, info.token_bytes);
  info_.tokens = 0;
  const Header unfinished;
  const auto bytes = std::as_bytes(std::span(&unfinished, 1));
  file_.write(bytes);
  file_.write_at(0, bytes);  // in the file at once, so that readers can tell what it is
}

void ShardWriter::add_document(std::span<const std::int32_t> tokens) {
  begin_document();
  append(tokens);
}

void ShardWriter::begin_document() {
  require(info_.end_of_document >= 0, ErrorKind::Data,
          "{}: the tokenizer has no end-of-document id to begin documents with", path_.string());
  document_starts_.push_back(static_cast<std::uint64_t>(info_.tokens));
  append(std::span(&info_.end_of_document, 1));
}

void ShardWriter::append(std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) {
    require(token >= 0 && token < info_.vocab_size, ErrorKind::Data,
            "{}: token {} is outside of the vocabulary of {} ids", path_.string(), token,
            info_.vocab_size);
  }
  std::span<const std::byte> bytes = std::as_bytes(tokens);
  if (info_.token_bytes == 2) {
    narrow_.assign(tokens.size(), 0);
    std::transform(tokens.begin(), tokens.end(), narrow_.begin(),
                   [](std::int32_t token) { return static_cast<std::uint16_t>(token); });
    bytes = std::as_bytes(std::span(narrow_));
  }
  checksum_.update(bytes);
  file_.write(bytes);
  info_.tokens += static_cast<std::int64_t>(tokens.size());
}

void ShardWriter::close() {
  constexpr std::byte kZeros[8] = {};
  file_.write(std::span(kZeros).first(padded_to_8(file_.size()) - file_.size()));
  const auto table = std::as_bytes(std::span(document_starts_));
  file_.write(table);

  Header header;
  header.token_count = static_cast<std::uint64_t>(info_.tokens);
  header.document_count = document_starts_.size();
  header.vocab_size = static_cast<std::uint64_t>(info_.vocab_size);
  header.tokenizer_fingerprint = info_.tokenizer_fingerprint;
  header.token_bytes = static_cast<std::uint32_t>(info_.token_bytes);
  header.end_of_document = info_.end_of_document;
  header.token_checksum = checksum_.value();
  header.document_checksum = checksum(table);
  file_.write_at(0, std::as_bytes(std::span(&header, 1)));
  sync_path(path_);  // "complete" reaches the disk after what it speaks of
  header.state = kStateComplete;
  header.header_checksum = header_checksum(header);
  file_.write_at(0, std::as_bytes(std::span(&header, 1)));
  file_.close();
}

}  // namespace flywheel
