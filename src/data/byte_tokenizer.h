#pragma once

#include "data/tokenizer.h"

namespace flywheel {

// Ids 0 to 255 are the bytes, 256 ends a document and decodes to "<|endoftext|>". Any bytes go
// through unchanged; no text is read as the end of a document.
class ByteTokenizer : public Tokenizer {
 public:
  static constexpr std::int32_t kEndOfDocument = 256;

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int64_t vocab_size() const override { return kEndOfDocument + 1; }
  std::int32_t end_of_document() const override { return kEndOfDocument; }
  std::uint64_t fingerprint() const override;
  void save(const std::filesystem::path&) const override {}
};

}  // namespace flywheel
