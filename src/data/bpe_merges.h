#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/bpe.h"
#include "data/vocabulary.h"

namespace flywheel {

// Turns merges written as tokens into ids. Error Data: a part or their union is not in the
// vocabulary.
class BpeMergeReader {
 public:
  explicit BpeMergeReader(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void add(std::string_view left, std::string_view right);
  void add_line(std::string_view line);  // "left right"
  std::vector<BpeMerge> take() { return std::move(merges_); }

 private:
  std::int32_t id_of(std::string_view token) const;
  const Vocabulary& vocabulary_;
  std::vector<BpeMerge> merges_;
  std::string joined_;
};

}  // namespace flywheel
