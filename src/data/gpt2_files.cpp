#include <utility>

#include "core/file_io.h"
#include "data/bpe_merges.h"
#include "data/bpe_tokenizer.h"
#include "data/json_node.h"
#include "data/pattern_scanner.h"

namespace flywheel {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxFileBytes = 256u << 20;
constexpr const char* kEndOfText = "<|endoftext|>";

std::string read_file(const fs::path& path) {
  require(fs::is_regular_file(path), ErrorKind::Data,
          "{}: missing; a GPT-2 tokenizer needs encoder.json and vocab.bpe", path.string());
  require(fs::file_size(path) <= kMaxFileBytes, ErrorKind::Data, "{}: larger than 256 MiB",
          path.string());
  return read_text_file(path);
}

Vocabulary read_encoder(const std::string& content, const std::string& source) {
  const nlohmann::json json = parse_json(content, source);
  const JsonNode root(json, source);
  if (!json.is_object()) root.refuse("an object of tokens and their ids");
  Vocabulary vocabulary(source);
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer()) root[token].refuse("an integer");
    vocabulary.add(token, JsonNode(id, source).integer());
  }
  return vocabulary;
}

// A line a merge, behind a line "#version: 0.2".
std::vector<BpeMerge> read_merges(std::string_view content, const Vocabulary& vocabulary) {
  BpeMergeReader reader(vocabulary);
  for (bool first = true; !content.empty(); first = false) {
    const std::size_t size = std::min(content.find('\n'), content.size());
    std::string_view line = content.substr(0, size);
    content.remove_prefix(std::min(size + 1, content.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const bool is_header = first && line.substr(0, 8) == "#version";
    if (!line.empty() && !is_header) reader.add_line(line);
  }
  return reader.take();
}

}  // namespace

BpeTokenizerParts read_gpt2_files(const fs::path& folder) {
  const fs::path merges_path = folder / "vocab.bpe";
  std::string encoder = read_file(folder / "encoder.json");
  std::string merges = read_file(merges_path);
  BpeTokenizerParts parts{
      read_encoder(encoder, (folder / "encoder.json").string()), {}, nullptr, nullptr, {}, {}};
  parts.rules.merges = read_merges(merges, parts.vocabulary);
  parts.pretokenizer =
      make_split(kGpt2Pattern, SplitBehavior::Isolated, false, merges_path.string());
  const std::int32_t end = parts.vocabulary.find(kEndOfText);
  if (end >= 0) {
    AddedToken token;
    token.content = kEndOfText;
    token.id = end;
    token.special = true;
    parts.added_tokens.push_back(std::move(token));
  }
  parts.files.push_back({"encoder.json", std::move(encoder)});
  parts.files.push_back({"vocab.bpe", std::move(merges)});
  return parts;
}

}  // namespace flywheel
