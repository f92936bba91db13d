#include "data/byte_tokenizer.h"

#include "core/checksum.h"

namespace flywheel {

void ByteTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
  ids.insert(ids.end(), bytes, bytes + text.size());
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < kEndOfDocument) text.push_back(static_cast<char>(id));
    if (id == kEndOfDocument) text += "<|endoftext|>";
  }
  return text;
}

std::uint64_t ByteTokenizer::fingerprint() const {
  constexpr std::string_view kName = "byte: 256 bytes, 256 ends a document";
  return checksum(std::as_bytes(std::span(kName)));
}

}  // namespace flywheel
