#include "data/text_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "data/input_files.h"
#include "data/safe_cut.h"

namespace flywheel {
namespace {

constexpr std::size_t kChunk = BlockReader::kBlock;
constexpr std::size_t kLongestPiece = std::size_t{16} << 20;  // without a safe place to cut
constexpr std::size_t kLongestLine = std::size_t{256} << 20;

// Where to cut the text of a long document whose first `searched` bytes have no place for it: a
// safe place, or any character if there is none for very long; 0 means that more text is needed.
std::size_t find_cut(std::string_view text, std::size_t searched) {
  const std::size_t cut = find_safe_cut(text, std::max(searched, TextPiece::kHashedBytes));
  return cut == 0 && text.size() >= kLongestPiece ? last_character(text) : cut;
}

std::string parse_line(std::string_view line, const std::string& text_key,
                       const std::string& place) {
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(line);
  } catch (const nlohmann::json::exception& error) {
    const std::string reason = error.what();
    fail(ErrorKind::Data, "{}: malformed JSON: {}", place, reason.substr(reason.find("] ") + 2));
  }
  require(object.is_object(), ErrorKind::Data, "{}: expected a JSON object, but this is a JSON {}",
          place, object.type_name());
  const auto found = object.find(text_key);
  if (found == object.end()) {
    std::string keys;
    for (const auto& item : object.items()) keys += (keys.empty() ? "" : ", ") + item.key();
    fail(ErrorKind::Data, "{}: no key \"{}\" (there are: {}); pass --text-key", place, text_key,
         keys);
  }
  require(found->is_string(), ErrorKind::Data, "{}: the value of \"{}\" is a JSON {}, not a string",
          place, text_key, found->type_name());
  return std::move(found->get_ref<std::string&>());
}

}  // namespace

void parse_json_lines(TextChunk& chunk, const std::string& text_key) {
  std::int64_t number = chunk.first_line;
  for (std::string_view rest = chunk.json_lines; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    std::string text =
        parse_line(line, text_key, chunk.file.string() + ":" + std::to_string(number));
    if (!text.empty()) chunk.pieces.push_back({std::move(text), true});
  }
}

TextSource::TextSource(std::vector<std::filesystem::path> files, std::string separator)
    : files_(std::move(files)), separator_(std::move(separator)) {}

bool TextSource::next(TextChunk& chunk) {
  if (reader_ && reader_->at_end() && reader_->text().empty()) {
    reader_.reset();
    ++file_;
  }
  if (file_ == files_.size()) return false;
  chunk = {};
  chunk.file = files_[file_];
  if (!reader_) {
    reader_ = std::make_unique<BlockReader>(chunk.file);
    line_ = 1;
    begins_document_ = true;
  }
  if (is_jsonl(chunk.file)) {
    take_json_lines(chunk);
  } else if (separator_.empty()) {
    take_whole_file(chunk);
  } else {
    take_separated(chunk);
  }
  return true;
}

void TextSource::take_whole_file(TextChunk& chunk) {
  std::size_t size = 0;
  std::size_t searched = 0;
  while (!reader_->at_end() && size == 0) {
    if (reader_->text().size() >= kChunk) {
      size = find_cut(reader_->text(), searched);
      searched = reader_->text().size();
    }
    if (size == 0) reader_->fill();
  }
  if (size == 0) size = reader_->text().size();
  if (size > 0) {
    chunk.pieces.push_back({std::string(reader_->text().substr(0, size)), begins_document_});
  }
  begins_document_ = false;
  chunk.bytes = size;
  reader_->take(size);
}

bool TextSource::find_line(std::size_t& size) {
  std::size_t searched = 0;
  while (true) {
    const std::string_view text = reader_->text();
    size = text.find('\n', searched);
    if (size != std::string_view::npos) return true;
    size = text.size();
    if (reader_->at_end()) return size > 0;
    require(size < kLongestLine, ErrorKind::Data, "{}:{}: line longer than {} MiB",
            files_[file_].string(), line_, kLongestLine >> 20);
    searched = size;
    reader_->fill();
  }
}

void TextSource::take_json_lines(TextChunk& chunk) {
  chunk.first_line = line_;
  std::size_t size = 0;
  while (chunk.json_lines.size() < kChunk && find_line(size)) {
    chunk.json_lines.append(reader_->text().substr(0, size)).push_back('\n');
    reader_->take(std::min(size + 1, reader_->text().size()));
    ++line_;
  }
  chunk.bytes = chunk.json_lines.size();
}

void TextSource::take_separated(TextChunk& chunk) {
  std::size_t size = 0;
  while (chunk.bytes < kChunk && find_line(size)) {
    const std::string_view line = reader_->text().substr(0, size);
    if (is_separator(line)) {
      end_document(chunk);
    } else {
      document_.append(line).push_back('\n');
      if (document_.size() >= searched_ + kChunk) cut_long_document(chunk);
    }
    const std::size_t taken = std::min(size + 1, reader_->text().size());
    reader_->take(taken);
    chunk.bytes += taken;
    ++line_;
  }
  if (reader_->at_end() && reader_->text().empty()) end_document(chunk);
}

bool TextSource::is_separator(std::string_view line) const {
  if (separator_ == "blank") return line.find_first_not_of(" \t\r") == std::string_view::npos;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line == separator_;
}

void TextSource::end_document(TextChunk& chunk) {
  if (!document_.empty()) document_.pop_back();  // the last line break
  if (!document_.empty()) chunk.pieces.push_back({std::move(document_), begins_document_});
  document_.clear();
  searched_ = 0;
  begins_document_ = true;
}

void TextSource::cut_long_document(TextChunk& chunk) {
  const std::size_t cut = find_cut(document_, searched_);
  searched_ = cut == 0 ? document_.size() : 0;
  if (cut == 0) return;
  chunk.pieces.push_back({document_.substr(0, cut), begins_document_});
  document_.erase(0, cut);
  begins_document_ = false;
}

}  // namespace flywheel
