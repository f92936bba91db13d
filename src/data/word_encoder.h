#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/bpe.h"
#include "data/pretokenizer.h"
#include "data/word_cache.h"

namespace flywheel {

// What encoding needs to write to: 2.5 MiB, kept from text to text. For one thread at a time.
struct WordEncoderMemory {
  using ShortWords = WordCache<2, 3, 15>;  // almost all words of most languages
  using LongWords = WordCache<4, 7, 12>;
  ShortWords short_words;
  LongWords long_words;
  BpeScratch bpe;
};

// Turns words into ids, by the caches where they know them. Words are looked up in batches, so that
// the caches' latency is hidden.
class WordEncoder : public PieceSink {
 public:
  // `text` is what the words are cut from; finish() must be called while it is alive.
  WordEncoder(const Bpe& bpe, WordEncoderMemory& memory, std::string_view text,
              std::vector<std::int32_t>& ids)
      : bpe_(bpe), memory_(memory), text_(text), ids_(ids) {}

  void piece(std::string_view word) override;
  void finish() { drain(); }

 private:
  using ShortWords = WordEncoderMemory::ShortWords;
  using LongWords = WordEncoderMemory::LongWords;
  static constexpr std::size_t kBatch = 16;

  struct Pending {
    std::string_view word;
    ShortWords::Key key;
    std::size_t set;
  };

  std::size_t readable_from(const char* word) const;
  void drain();
  void encode_long_or_new(const Pending& pending);

  const Bpe& bpe_;
  WordEncoderMemory& memory_;
  std::string_view text_;
  std::vector<std::int32_t>& ids_;
  std::array<Pending, kBatch> pending_;
  std::size_t pending_count_ = 0;
};

}  // namespace flywheel
