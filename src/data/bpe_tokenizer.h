#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/added_tokens.h"
#include "data/bpe.h"
#include "data/normalizer.h"
#include "data/pretokenizer.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"

namespace flywheel {

// What the files of a BPE tokenizer say.
struct BpeTokenizerParts {
  struct File {
    std::string name;
    std::string content;
  };

  Vocabulary vocabulary;  // of the model, without added tokens
  BpeRules rules;
  NormalizerPtr normalizer;  // null: none
  PreTokenizerPtr pretokenizer;
  std::vector<AddedToken> added_tokens;
  std::vector<File> files;  // what save() writes
  // SentencePiece: a space that encode() put before the text is dropped behind `begin`.
  bool strip_space = false;
};

// Encoding: cut out the added tokens that are looked for in the raw text; normalize what lies
// between; cut out the others; pre-tokenize; merge each word. Ill-formed UTF-8 is read as U+FFFD
// (utf8.h). Decoding: the bytes of the tokens, special ones included; ids that stand for nothing
// give no bytes.
class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeTokenizerParts parts);
  ~BpeTokenizer() override;

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int64_t vocab_size() const override { return parts_.vocabulary.size(); }
  std::int32_t end_of_document() const override { return end_of_document_; }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  void save(const std::filesystem::path& folder) const override;

 private:
  struct Workspace;
  class Lease;

  void place_added_token(const AddedToken& token);
  std::uint64_t make_fingerprint() const;
  void encode_normalized(std::string_view text, Workspace& workspace,
                         std::vector<std::int32_t>& ids) const;
  void encode_words(std::string_view text, Workspace& workspace,
                    std::vector<std::int32_t>& ids) const;

  BpeTokenizerParts parts_;
  Bpe bpe_;
  AddedTokenFinder raw_added_tokens_;
  AddedTokenFinder normalized_added_tokens_;
  std::int32_t end_of_document_ = -1;
  std::int32_t begin_of_text_ = -1;  // behind which a space is dropped; -1: never
  std::uint64_t fingerprint_ = 0;

  mutable std::mutex workspaces_mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_workspaces_;
};

// Of a tokenizer.json's content; `source` is what errors name.
BpeTokenizerParts parse_tokenizer_json(std::string content, const std::string& source);

// Loaders; `path` is the file, or the folder that holds encoder.json and vocab.bpe.
BpeTokenizerParts read_tokenizer_json(const std::filesystem::path& path);
BpeTokenizerParts read_gpt2_files(const std::filesystem::path& folder);

}  // namespace flywheel
