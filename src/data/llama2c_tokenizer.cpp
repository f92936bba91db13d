#include "data/llama2c_tokenizer.h"

#include <cstring>

#include "core/error.h"
#include "core/file_io.h"
#include "data/bpe_tokenizer.h"
#include "data/sentencepiece.h"
#include "data/utf8.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFirstByte = 3;
constexpr std::int64_t kFirstPiece = kFirstByte + 256;
constexpr std::int32_t kMaxPieceBytes = 4096;

// Takes values from the start of a file.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string source)
      : bytes_(bytes), source_(std::move(source)) {}

  template <class Value>
  Value take() {
    Value value;
    std::memcpy(&value, take_bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string_view take_bytes(std::size_t count) {
    require(count <= bytes_.size(), ErrorKind::Data, "{}: cut off", source_);
    const std::string_view taken(reinterpret_cast<const char*>(bytes_.data()), count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  std::string source_;
};

// As SentencePiece writes it; llama2.c has spaces for "\u2581".
std::string piece_text(std::string_view text) {
  std::string piece;
  for (const char c : text) {
    c == ' ' ? piece += "\u2581" : piece += c;
  }
  return piece;
}

ScoredPiece make_piece(std::int64_t id, float score, std::string_view text,
                       const std::string& source) {
  using Kind = ScoredPiece::Kind;
  if (id == 0) return {"<unk>", score, Kind::Unknown};
  if (id == 1) return {"<s>", score, Kind::Control};
  if (id == 2) return {"</s>", score, Kind::Control};
  if (id < kFirstPiece) {
    std::string byte = byte_piece(static_cast<unsigned char>(id - kFirstByte));
    require(text == byte, ErrorKind::Data, "{}: token {} should be {}", source, id, byte);
    return {std::move(byte), score, Kind::Byte};
  }
  require(!text.empty() && valid_utf8_prefix(text) == text.size(), ErrorKind::Data,
          "{}: token {} is not UTF-8", source, id);
  return {piece_text(text), score, Kind::Normal};
}

}  // namespace

std::unique_ptr<Tokenizer> read_llama2c_tokenizer(const fs::path& path, std::int64_t vocab_size) {
  require(fs::is_regular_file(path), ErrorKind::Data,
          "{}: missing; a llama2.c model needs its tokenizer beside it", path.string());
  const std::string source = path.string();
  const MappedFile file(path);
  Cursor cursor(file.bytes(), source);
  cursor.take<std::int32_t>();  // the longest token
  std::vector<ScoredPiece> pieces;
  for (std::int64_t id = 0; id < vocab_size; ++id) {
    const auto score = cursor.take<float>();
    const auto length = cursor.take<std::int32_t>();
    require(0 <= length && length <= kMaxPieceBytes, ErrorKind::Data,
            "{}: token {} has {} bytes; expected 0 to {}", source, id, length, kMaxPieceBytes);
    const auto text = cursor.take_bytes(static_cast<std::size_t>(length));
    pieces.push_back(make_piece(id, score, text, source));
  }
  require(cursor.at_end(), ErrorKind::Data, "{}: has more than the model's {} tokens", source,
          vocab_size);
  return std::make_unique<BpeTokenizer>(
      parse_tokenizer_json(sentencepiece_json(pieces, true, 1), source));
}

}  // namespace flywheel
