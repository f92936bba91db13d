#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flywheel {

// A token of a SentencePiece model (Kudo & Richardson 2018). Of two adjacent pieces whose union is
// a piece, the pair with the highest score is joined first.
struct ScoredPiece {
  enum class Kind { Normal, Unknown, Control, UserDefined, Unused, Byte };
  std::string text;  // "▁the", "<0x0A>"
  float score = 0;
  Kind kind = Kind::Normal;
};

// What a piece stands for: "▁" is a space, "<0x0A>" a byte.
std::string bytes_of_piece(std::string_view piece);

// "<0x0A>" of 10.
std::string byte_piece(unsigned char byte);

// The post-processor, as JSON, that puts the token `begin` before every text.
std::string begin_processor_json(const std::string& begin, std::int32_t id);

// The tokenizer.json that encodes as the pieces (by id) do, the form of Llama 2's: merges in the
// order of their scores, bytes for characters that are no piece, and a space before the text if
// `space_prefix`. `begin` >= 0 is put before every text by readers that apply a post-processor.
std::string sentencepiece_json(const std::vector<ScoredPiece>& pieces, bool space_prefix,
                               std::int32_t begin);

}  // namespace flywheel
