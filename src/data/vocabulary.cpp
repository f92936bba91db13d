#include "data/vocabulary.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/checksum.h"
#include "core/error.h"
#include "data/byte_level.h"
#include "data/sentencepiece.h"

namespace flywheel {

void Vocabulary::add(std::string_view token, std::int64_t id) {
  add_outside_model(token, id);
  ids_.emplace(token, static_cast<std::int32_t>(id));
}

void Vocabulary::add_outside_model(std::string_view token, std::int64_t id) {
  require(id >= 0 && id <= kMaxId, ErrorKind::Data, "{}: token '{}' has id {}; expected 0 to {}",
          source_, token, id, kMaxId);
  const std::string bytes = spelling_ == TokenSpelling::SentencePiece
                                ? bytes_of_piece(token)
                                : bytes_of_token(token).value_or(std::string(token));
  const auto [position, is_new] = bytes_.try_emplace(static_cast<std::int32_t>(id), bytes);
  require(is_new, ErrorKind::Data, "{}: id {} belongs to two tokens, '{}' and one that reads '{}'",
          source_, id, token, position->second);
  size_ = std::max(size_, id + 1);
}

std::int32_t Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

const std::string* Vocabulary::bytes(std::int32_t id) const {
  const auto found = bytes_.find(id);
  return found == bytes_.end() ? nullptr : &found->second;
}

std::uint64_t Vocabulary::checksum() const {
  std::vector<std::int32_t> ids;
  for (const auto& [id, bytes] : bytes_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  StreamingChecksum sum;
  for (const std::int32_t id : ids) {
    const std::string& token = bytes_.at(id);
    const std::int64_t header[2] = {id, static_cast<std::int64_t>(token.size())};
    sum.update(std::as_bytes(std::span(header)));
    sum.update(std::as_bytes(std::span(token)));
  }
  return sum.value();
}

}  // namespace flywheel
