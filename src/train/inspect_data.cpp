#include <fmt/ranges.h>

#include <algorithm>

#include "core/checksum.h"
#include "core/error.h"
#include "core/safetensors.h"
#include "data/bpe_tokenizer.h"
#include "data/byte_tokenizer.h"
#include "data/shard.h"
#include "data/shard_format.h"
#include "train/console.h"
#include "train/inspect.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunk = std::int64_t{1} << 18;  // tokens

// "llm.c", 1: the version that goes with the file's size of tokens.
std::int64_t version_of(const ShardInfo& info) {
  if (info.format == "flywheel") return shard_format::kVersion;
  const auto* const format = std::find_if(
      std::begin(shard_format::kForeignFormats), std::end(shard_format::kForeignFormats),
      [&](const auto& known) { return known.token_bytes == info.token_bytes; });
  return format == std::end(shard_format::kForeignFormats) ? 0 : format->version;
}

struct TokenScan {
  std::int32_t largest = -1;    // -1: no token
  std::int64_t boundaries = 0;  // end-of-document ids
};

// Error Data for a token outside of the vocabulary.
TokenScan scan_tokens(const ShardReader& shard) {
  const ShardInfo& info = shard.info();
  TokenScan scan;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(kChunk, info.tokens)));
  for (std::int64_t begin = 0; begin < info.tokens; begin += kChunk) {
    tokens.resize(static_cast<std::size_t>(std::min(kChunk, info.tokens - begin)));
    shard.read(begin, tokens);
    scan.largest = std::max(scan.largest, *std::max_element(tokens.begin(), tokens.end()));
    scan.boundaries += std::count(tokens.begin(), tokens.end(), info.end_of_document);
  }
  return scan;
}

void describe_header(const ShardInfo& info, Inspection& out) {
  out.add("format", info.format,
          info.format == "llm.c" ? "modded-nanogpt writes the same" : "ours");
  out.add("version", version_of(info));
  out.add("tokens", info.tokens, human_count(static_cast<double>(info.tokens)));
  out.add("bytes_a_token", std::int64_t{info.token_bytes});
  if (info.vocab_size > 0) out.add("vocab_size", info.vocab_size);
  if (info.tokenizer_fingerprint != 0) {
    out.add("tokenizer_fingerprint", checksum_text(info.tokenizer_fingerprint));
  }
  out.add("end_of_document", std::int64_t{info.end_of_document},
          info.format == "llm.c" ? "by convention" : "");
}

void describe_documents(std::int64_t documents, std::int64_t tokens, const char* note,
                        Inspection& out) {
  out.add("documents", documents, note);
  if (documents == 0) return;
  out.add("mean_document_tokens", static_cast<double>(tokens) / static_cast<double>(documents));
}

void compare_with_tokenizer(const ShardInfo& info, const TokenScan& scan,
                            const Tokenizer& tokenizer, Inspection& out) {
  if (info.tokenizer_fingerprint == 0) {
    out.add("tokenizer_matches", "unknown", "the file does not say which tokenizer made it");
    return require(scan.largest < tokenizer.vocab_size(), ErrorKind::Data,
                   "{}: holds token {}, but the ids of --tokenizer end at {}", out.path,
                   scan.largest, tokenizer.vocab_size() - 1);
  }
  const bool matches = info.tokenizer_fingerprint == tokenizer.fingerprint();
  out.add("tokenizer_matches", matches);
  require(matches, ErrorKind::Data,
          "{}: made with another tokenizer (fingerprint {}, that of --tokenizer is {})", out.path,
          checksum_text(info.tokenizer_fingerprint), checksum_text(tokenizer.fingerprint()));
}

void show_start(const ShardReader& shard, const InspectOptions& options, Inspection& out) {
  std::vector<std::int32_t> ids(
      static_cast<std::size_t>(std::min(options.show, shard.info().tokens)));
  if (ids.empty()) return;
  shard.read(0, ids);
  out.add("first_tokens", fmt::format("{}", fmt::join(ids, " ")));
  if (options.tokenizer) out.add("first_text", escaped(options.tokenizer->decode(ids)));
}

BpeTokenizerParts read_bpe_files(const fs::path& path) {
  if (!fs::is_directory(path)) return read_tokenizer_json(path);
  const fs::path json = path / "tokenizer.json";
  return fs::exists(json) ? read_tokenizer_json(json) : read_gpt2_files(path);
}

std::string file_of(const BpeTokenizerParts& parts) {
  return parts.files.size() == 1 ? "tokenizer.json" : "encoder.json and vocab.bpe";
}

InspectedTable added_tokens_table(const std::vector<AddedToken>& tokens) {
  InspectedTable table{"added_tokens", {"token", "id", "special"}, {}, 1};
  for (const AddedToken& token : tokens) {
    table.rows.push_back({escaped(token.content), std::int64_t{token.id}, token.special});
  }
  return table;
}

std::unique_ptr<Tokenizer> describe_tokenizer(const std::string& name, Inspection& out) {
  if (name == "byte") {
    out.add("algorithm", "bytes");
    return std::make_unique<ByteTokenizer>();
  }
  BpeTokenizerParts parts = read_bpe_files(name);
  out.add("algorithm", "byte-level BPE", file_of(parts));
  out.add("merges", static_cast<std::int64_t>(parts.rules.merges.size()));
  out.tables.push_back(added_tokens_table(parts.added_tokens));
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

void show_tokens(const Tokenizer& tokenizer, const std::string& text, Inspection& out) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  out.add("text_tokens", static_cast<std::int64_t>(ids.size()));
  InspectedTable table{"text", {"piece", "id"}, {}, 1};
  for (const std::int32_t& id : ids) {
    table.rows.push_back({escaped(tokenizer.decode(std::span(&id, 1))), std::int64_t{id}});
  }
  out.tables.push_back(std::move(table));
}

}  // namespace

Inspection inspect_shard(const fs::path& path, const InspectOptions& options) {
  Inspection out{.path = path.string(), .kind = "token file"};
  out.guard([&] {
    const ShardReader shard(path);
    const ShardInfo& info = shard.info();
    describe_header(info, out);
    if (info.format == "flywheel") {
      describe_documents(info.documents, info.tokens, "that begin here", out);
    }
    TokenScan scan;
    out.guard([&] {
      scan = scan_tokens(shard);
      out.add("largest_token", std::int64_t{scan.largest});
      if (info.format == "flywheel") return;
      describe_documents(scan.boundaries, info.tokens, "end-of-document ids", out);
    });
    out.guard([&] {
      if (info.format != "flywheel") return out.add("checksum", "none", "the format has none");
      shard.verify_checksum();
      out.add("checksum", checksum_text(info.checksum), "XXH3, verified");
    });
    if (options.tokenizer) {
      out.guard([&] { compare_with_tokenizer(info, scan, *options.tokenizer, out); });
    }
    out.guard([&] { show_start(shard, options, out); });
  });
  return out;
}

Inspection inspect_safetensors(const fs::path& path) {
  Inspection out{.path = path.string(), .kind = "safetensors file"};
  out.guard([&] {
    const SafetensorsReader reader(path);
    InspectedTable tensors{"tensors", {"name", "dtype", "shape", "bytes"}, {}, 2};
    std::int64_t elements = 0;
    std::int64_t bytes = 0;
    for (const SafetensorsEntry& entry : reader.entries()) {
      const auto size = static_cast<std::int64_t>(entry.bytes.size());
      elements += entry.elements();
      bytes += size;
      tensors.rows.push_back({escaped(entry.name), entry.dtype,
                              fmt::format("[{}]", fmt::join(entry.shape, ", ")), size});
    }
    out.add("tensor_count", static_cast<std::int64_t>(reader.entries().size()));
    out.add("elements", elements, human_count(static_cast<double>(elements)));
    out.add("bytes", bytes, human_bytes(bytes));
    InspectedTable metadata{"metadata", {"key", "value"}, {}, 2};
    for (const auto& [key, value] : reader.metadata()) {
      metadata.rows.push_back({escaped(key), escaped(value)});
    }
    out.tables = {std::move(metadata), std::move(tensors)};
  });
  return out;
}

Inspection inspect_tokenizer(const std::string& name, const InspectOptions& options) {
  Inspection out{.path = name, .kind = "tokenizer"};
  out.guard([&] {
    const auto tokenizer = describe_tokenizer(name, out);
    out.add("vocab_size", tokenizer->vocab_size());
    out.add("end_of_document", std::int64_t{tokenizer->end_of_document()});
    out.add("fingerprint", checksum_text(tokenizer->fingerprint()));
    if (options.text) show_tokens(*tokenizer, *options.text, out);
  });
  return out;
}

}  // namespace flywheel
