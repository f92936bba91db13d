#include "data/shard_set_writer.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial";

fs::path partial(const fs::path& file) {
  return file.string() + std::string(kPartial);
}

// Whether a file's name is NAME_, digits, .bin and perhaps .partial.
bool belongs_to_set(std::string_view file, std::string_view name, bool with_partial) {
  if (with_partial && file.ends_with(kPartial)) file.remove_suffix(kPartial.size());
  if (!file.starts_with(name) || !file.ends_with(".bin")) return false;
  file.remove_prefix(name.size());
  file.remove_suffix(4);
  return file.size() > 1 && file[0] == '_' &&
         file.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

}  // namespace

ShardSetWriter::ShardSetWriter(fs::path folder, std::string name, const ShardInfo& info,
                               std::int64_t shard_tokens)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      info_(info),
      shard_tokens_(shard_tokens) {}

ShardSetWriter::~ShardSetWriter() {
  if (published_) return;
  std::error_code ignored;
  for (const fs::path& file : files_) fs::remove(partial(file), ignored);
}

ShardWriter& ShardSetWriter::shard() {
  if (shard_ && shard_->tokens() == shard_tokens_) close();
  if (!shard_) {
    files_.push_back(folder_ / fmt::format("{}_{:06}.bin", name_, files_.size()));
    shard_ = std::make_unique<ShardWriter>(partial(files_.back()), info_);
  }
  return *shard_;
}

void ShardSetWriter::begin_document() {
  shard().begin_document();
  ++documents_;
  ++tokens_;
}

void ShardSetWriter::append(std::span<const std::int32_t> tokens) {
  tokens_ += static_cast<std::int64_t>(tokens.size());
  while (!tokens.empty()) {
    ShardWriter& target = shard();
    const auto room = static_cast<std::size_t>(shard_tokens_ - target.tokens());
    const std::size_t count = std::min(room, tokens.size());
    target.append(tokens.first(count));
    tokens = tokens.subspan(count);
  }
}

void ShardSetWriter::close() {
  if (shard_) shard_->close();
  shard_.reset();
}

void ShardSetWriter::publish() {
  for (const fs::path& file : files_) {
    std::error_code error;
    fs::rename(partial(file), file, error);
    require(!error, ErrorKind::Io, "{}: cannot rename to this: {}", file.string(), error.message());
  }
  sync_path(folder_);
  published_ = true;
}

std::vector<fs::path> list_shard_set(const fs::path& folder, const std::string& name,
                                     bool partial) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (belongs_to_set(entry.path().filename().string(), name, partial)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace flywheel
