#include "data/bpe_merges.h"

#include "core/error.h"

namespace flywheel {

void BpeMergeReader::add(std::string_view left, std::string_view right) {
  joined_.assign(left).append(right);
  merges_.push_back({id_of(left), id_of(right), id_of(joined_)});
}

void BpeMergeReader::add_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  require(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos,
          ErrorKind::Data, "{}: merge {} is '{}'; expected two tokens and a space between them",
          vocabulary_.source(), merges_.size(), line.substr(0, 100));
  add(line.substr(0, space), line.substr(space + 1));
}

std::int32_t BpeMergeReader::id_of(std::string_view token) const {
  const std::int32_t id = vocabulary_.find(token);
  require(id >= 0, ErrorKind::Data, "{}: merge {} needs the token '{}', which the vocabulary lacks",
          vocabulary_.source(), merges_.size(), token.substr(0, 100));
  return id;
}

}  // namespace flywheel
