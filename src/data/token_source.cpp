#include "data/token_source.h"

#include <algorithm>

#include "core/error.h"
#include "data/file_pattern.h"

namespace flywheel {

TokenSource::TokenSource(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    for (const auto& path : expand_pattern(pattern)) {
      require(!std::filesystem::is_directory(path), ErrorKind::Data,
              "{}: a folder; name its token files, as in {}", path.string(),
              (path / "train_*.bin").string());
      shards_.emplace_back(path);
      starts_.push_back(tokens() + shards_.back().info().tokens);
    }
  }
}

void TokenSource::read(std::int64_t begin, std::span<std::int32_t> out) const {
  auto shard = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) -
                                        starts_.begin() - 1);
  for (; !out.empty(); ++shard) {
    require(shard < shards_.size(), ErrorKind::Internal, "token {} asked for, but there are {}",
            begin, tokens());
    const auto count = static_cast<std::size_t>(
        std::min(static_cast<std::int64_t>(out.size()), starts_[shard + 1] - begin));
    shards_[shard].read(begin - starts_[shard], out.first(count));
    out = out.subspan(count);
    begin += static_cast<std::int64_t>(count);
  }
}

}  // namespace flywheel
