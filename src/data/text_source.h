#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/block_reader.h"

namespace flywheel {

// A document, or a part of a long one. Parts are cut where that does not change ids
// (data/safe_cut.h); the first has at least kHashedBytes unless the document is shorter.
struct TextPiece {
  static constexpr std::size_t kHashedBytes = 65536;

  std::string text;  // never empty
  bool begins_document = true;
};

// About a megabyte of one file.
struct TextChunk {
  std::filesystem::path file;
  std::vector<TextPiece> pieces;
  std::string json_lines;       // of a JSONL file: whole lines, for parse_json_lines()
  std::int64_t first_line = 1;  // number of the first of them
  std::uint64_t bytes = 0;      // of the file that this chunk took
};

// Parses `json_lines` into `pieces`, one document a line; documents without text and blank lines
// are left out. Error Data "FILE:LINE: ..." for a line that is no JSON object with a string at
// `text_key`.
void parse_json_lines(TextChunk& chunk, const std::string& text_key);

// Reads files one after another, in chunks, in memory that does not grow with them.
class TextSource {
 public:
  // separator: "" makes each text file a document; "blank" cuts it at blank lines; anything else at
  // lines that are equal to it. Separator lines, and the line breaks before them, belong to no
  // document.
  TextSource(std::vector<std::filesystem::path> files, std::string separator);

  bool next(TextChunk& chunk);  // false at the end of the last file; Error Io, Data

 private:
  void take_whole_file(TextChunk& chunk);
  void take_separated(TextChunk& chunk);
  void take_json_lines(TextChunk& chunk);
  bool is_separator(std::string_view line) const;
  void end_document(TextChunk& chunk);
  void cut_long_document(TextChunk& chunk);
  bool find_line(std::size_t& size);  // of the next line, in the reader's text

  std::vector<std::filesystem::path> files_;
  std::string separator_;
  std::size_t file_ = 0;
  std::unique_ptr<BlockReader> reader_;  // of files_[file_]
  std::int64_t line_ = 1;
  std::string document_;      // what is known of the current document and not handed out
  std::size_t searched_ = 0;  // of document_, in vain, for a place to cut
  bool begins_document_ = true;
};

}  // namespace flywheel
