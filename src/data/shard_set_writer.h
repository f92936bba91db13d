#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/shard.h"

namespace flywheel {

// Writes NAME_000000.bin, NAME_000001.bin, ... of shard_tokens tokens each (the last may be
// smaller). A document that does not fit goes on in the next shard. The files carry ".partial"
// behind their names until publish(), and are removed with a writer that did not come so far: what
// has its name is complete.
class ShardSetWriter {
 public:
  ShardSetWriter(std::filesystem::path folder, std::string name, const ShardInfo& info,
                 std::int64_t shard_tokens);
  ~ShardSetWriter();
  ShardSetWriter(const ShardSetWriter&) = delete;
  ShardSetWriter& operator=(const ShardSetWriter&) = delete;

  void begin_document();
  void append(std::span<const std::int32_t> tokens);
  void close();    // completes the last shard
  void publish();  // after close(): renames

  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t shards() const { return static_cast<std::int64_t>(files_.size()); }

 private:
  ShardWriter& shard();  // with room for a token

  std::filesystem::path folder_;
  std::string name_;
  ShardInfo info_;
  std::int64_t shard_tokens_;
  std::unique_ptr<ShardWriter> shard_;
  std::vector<std::filesystem::path> files_;  // names after publish()
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
  bool published_ = false;
};

// The token files NAME_*.bin of a set in a folder, those with ".partial" among them if `partial`.
std::vector<std::filesystem::path> list_shard_set(const std::filesystem::path& folder,
                                                  const std::string& name, bool partial);

}  // namespace flywheel
