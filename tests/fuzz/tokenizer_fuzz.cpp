// Loads a tokenizer.json, or GPT-2's pair of files, and encodes with it. Bytes 0xFF cut the input
// into the JSON, the merges (if there are three parts) and a text.

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/tokenizer.h"

namespace {

namespace fs = std::filesystem;
using flywheel::Tokenizer;

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "tokenizer_fuzz_XXXXXX").string();
    if (!mkdtemp(name.data())) abort();
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

std::vector<std::string_view> parts_of(std::string_view input) {
  std::vector<std::string_view> parts;
  while (parts.size() < 2) {
    const std::size_t cut = input.find('\xFF');
    if (cut == std::string_view::npos) break;
    parts.push_back(input.substr(0, cut));
    input.remove_prefix(cut + 1);
  }
  parts.push_back(input);
  return parts;
}

void write(const fs::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;  // without the fsync of our own writers
}

void exercise(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  std::vector<std::int32_t> again;
  tokenizer.encode(text, again);
  if (ids != again) abort();
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= tokenizer.vocab_size()) abort();
  }
  tokenizer.decode(ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string_view> parts = parts_of(input);
  const fs::path json = folder.path / (parts.size() == 3 ? "encoder.json" : "tokenizer.json");
  try {
    write(json, parts.front());
    if (parts.size() == 3) write(folder.path / "vocab.bpe", parts[1]);
    const auto tokenizer =
        Tokenizer::load(parts.size() == 3 ? folder.path.string() : json.string());
    exercise(*tokenizer, "Hello  world's 12,\n \xF0\x9F\x98\x80 e\xCC\x81<|endoftext|>");
    exercise(*tokenizer, parts.back().substr(0, 4096));
  } catch (const flywheel::Error& error) {
    if (error.kind() != flywheel::ErrorKind::Data) abort();
  }
  fs::remove(json);
  return 0;
}
