#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/shard.h"

namespace flywheel {

// Shards, one after another, as one run of tokens.
class TokenSource {
 public:
  explicit TokenSource(const std::vector<std::string>& patterns);  // Error Data, as ShardReader

  std::int64_t tokens() const { return starts_.back(); }
  const std::vector<ShardReader>& shards() const { return shards_; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const;  // across shards

 private:
  std::vector<ShardReader> shards_;
  std::vector<std::int64_t> starts_{0};  // of each shard, and the end
};

}  // namespace flywheel
