#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace flywheel {

// How the tokens of a vocabulary are written: in the letters of byte_level.h, or as SentencePiece
// does it, "▁" for a space and "<0x0A>" for a byte that is no token otherwise (Kudo & Richardson
// 2018).
enum class TokenSpelling { ByteLevel, SentencePiece };

// The tokens of a vocabulary, each under its written form and its id.
class Vocabulary {
 public:
  static constexpr std::int64_t kMaxId = 1 << 24;

  struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  using IdOfToken = std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>>;

  // `source` is the file, for errors.
  explicit Vocabulary(std::string source, TokenSpelling spelling = TokenSpelling::ByteLevel)
      : source_(std::move(source)), spelling_(spelling) {}

  // Error Data: an id below 0, above kMaxId or taken by another token.
  void add(std::string_view token, std::int64_t id);
  // The same for a token that merges do not know.
  void add_outside_model(std::string_view token, std::int64_t id);

  std::int32_t find(std::string_view token) const;  // -1: not in the model's vocabulary
  const std::string* bytes(std::int32_t id) const;  // what the token decodes to; null: no such id
  const IdOfToken& tokens() const { return ids_; }  // of the model
  std::int64_t size() const { return size_; }       // highest id + 1
  const std::string& source() const { return source_; }
  TokenSpelling spelling() const { return spelling_; }
  std::uint64_t checksum() const;  // over all (id, bytes)

 private:
  std::string source_;
  TokenSpelling spelling_;
  IdOfToken ids_;
  std::unordered_map<std::int32_t, std::string> bytes_;
  std::int64_t size_ = 0;
};

}  // namespace flywheel
