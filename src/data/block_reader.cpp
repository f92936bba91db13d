#include "data/block_reader.h"

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace flywheel {

BlockReader::BlockReader(const std::filesystem::path& path)
    : path_(path), file_(path, std::ios::binary) {
  require(file_.is_open(), ErrorKind::Io, "{}: cannot open: {}", path.string(),
          std::strerror(errno));
  fill();
  require(!text().starts_with("\xFF\xFE") && !text().starts_with("\xFE\xFF"), ErrorKind::Data,
          "{}: UTF-16 text; convert it with `iconv -f utf-16 -t utf-8`", path.string());
  if (text().starts_with("\xEF\xBB\xBF")) take(3);
}

void BlockReader::fill() {
  buffer_.erase(0, taken_);
  taken_ = 0;
  const std::size_t held = buffer_.size();
  buffer_.resize(held + kBlock);
  file_.read(buffer_.data() + held, static_cast<std::streamsize>(kBlock));
  require(!file_.bad(), ErrorKind::Io, "{}: cannot read: {}", path_.string(), std::strerror(errno));
  buffer_.resize(held + static_cast<std::size_t>(file_.gcount()));
  at_end_ = file_.eof();
}

}  // namespace flywheel
