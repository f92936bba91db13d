#include "data/tokenizer.h"

#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "data/bpe_tokenizer.h"
#include "data/byte_tokenizer.h"

namespace flywheel {

namespace fs = std::filesystem;

namespace {

bool is_file(const fs::path& path) {
  std::error_code unreachable;
  return fs::is_regular_file(path, unreachable);
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::load(const std::string& name) {
  if (name == "byte") return std::make_unique<ByteTokenizer>();
  const fs::path path = name;
  if (is_file(path)) {
    return std::make_unique<BpeTokenizer>(read_tokenizer_json(path));
  }
  if (is_file(path / "tokenizer.json")) {
    return std::make_unique<BpeTokenizer>(read_tokenizer_json(path / "tokenizer.json"));
  }
  if (is_file(path / "encoder.json")) {
    return std::make_unique<BpeTokenizer>(read_gpt2_files(path));
  }
  fail(ErrorKind::Data,
       "{}: no tokenizer; expected 'byte', a tokenizer.json, or a folder with tokenizer.json or "
       "with "
       "encoder.json and vocab.bpe",
       name);
}

}  // namespace flywheel
