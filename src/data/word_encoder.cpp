#include "data/word_encoder.h"

#include <functional>
#include <span>

namespace flywheel {

// Words mostly lie in `text_`, but a step of pre-tokenization may have copied them.
std::size_t WordEncoder::readable_from(const char* word) const {
  const std::less<const char*> before;
  const char* const end = text_.data() + text_.size();
  if (before(word, text_.data()) || !before(word, end)) return 0;
  return static_cast<std::size_t>(end - word);
}

void WordEncoder::piece(std::string_view word) {
  const std::size_t readable = readable_from(word.data());
  Pending& pending = pending_[pending_count_++];
  pending.word = word;
  if (word.size() <= ShortWords::Key::kMaxBytes) {
    pending.key = ShortWords::Key(word, readable);
    pending.set = ShortWords::set_of(pending.key);
    memory_.short_words.prefetch(pending.set);
  }
  const bool is_copy = readable == 0;  // alive only during this call
  if (pending_count_ == kBatch || is_copy) drain();
}

void WordEncoder::drain() {
  std::int32_t found[kBatch * ShortWords::kMaxIds];
  std::size_t found_count = 0;
  const auto flush = [&] {
    ids_.insert(ids_.end(), found, found + found_count);
    found_count = 0;
  };
  for (std::size_t i = 0; i < pending_count_; ++i) {
    const Pending& pending = pending_[i];
    const ShortWords::Entry* known = nullptr;
    if (pending.word.size() <= ShortWords::Key::kMaxBytes) {
      known = memory_.short_words.find(pending.key, pending.set);
    }
    if (!known) {
      flush();
      encode_long_or_new(pending);
      continue;
    }
    for (std::size_t j = 0; j < ShortWords::kMaxIds; ++j) found[found_count + j] = known->ids[j];
    found_count += static_cast<std::size_t>(known->count);
  }
  flush();
  pending_count_ = 0;
}

void WordEncoder::encode_long_or_new(const Pending& pending) {
  const std::string_view word = pending.word;
  if (word.size() > LongWords::Key::kMaxBytes) return bpe_.encode(word, memory_.bpe, ids_);
  const LongWords::Key key(word, readable_from(word.data()));
  const std::size_t set = LongWords::set_of(key);
  if (const LongWords::Entry* const known = memory_.long_words.find(key, set)) {
    ids_.insert(ids_.end(), known->ids, known->ids + known->count);
    return;
  }
  const std::size_t before = ids_.size();
  bpe_.encode(word, memory_.bpe, ids_);
  const std::span<const std::int32_t> ids = std::span(ids_).subspan(before);
  const bool is_short =
      word.size() <= ShortWords::Key::kMaxBytes && ids.size() <= ShortWords::kMaxIds;
  if (ids.empty()) return;
  if (is_short) {
    memory_.short_words.store(pending.key, pending.set, ids);
  } else if (ids.size() <= LongWords::kMaxIds) {
    memory_.long_words.store(key, set, ids);
  }
}

}  // namespace flywheel
