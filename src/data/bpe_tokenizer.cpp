#include "data/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file_io.h"
#include "data/utf8.h"
#include "data/word_encoder.h"

namespace flywheel {

namespace {

constexpr std::size_t kMaxAddedTokenBytes = 4096;

// Names of the token between documents, most telling first.
constexpr std::array<std::string_view, 7> kEndOfDocumentNames = {
    "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<|eos|>", "<eos>",
    "[EOS]"};

constexpr std::array<std::string_view, 2> kBeginOfTextNames = {"<s>", "<bos>"};

std::int32_t find_special(const std::vector<AddedToken>& tokens,
                          std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    for (const AddedToken& token : tokens) {
      if (token.special && token.content == name) return token.id;
    }
  }
  return -1;
}

}  // namespace

struct BpeTokenizer::Workspace {
  WordEncoderMemory words;
  std::string normalized;
  std::vector<AddedTokenSpan> raw_spans;
  std::vector<AddedTokenSpan> normalized_spans;
};

// A workspace for the length of one call.
class BpeTokenizer::Lease {
 public:
  explicit Lease(const BpeTokenizer& tokenizer) : tokenizer_(tokenizer) {
    const std::lock_guard lock(tokenizer_.workspaces_mutex_);
    if (tokenizer_.idle_workspaces_.empty()) return;
    workspace_ = std::move(tokenizer_.idle_workspaces_.back());
    tokenizer_.idle_workspaces_.pop_back();
  }
  ~Lease() {
    if (!workspace_) return;
    const std::lock_guard lock(tokenizer_.workspaces_mutex_);
    tokenizer_.idle_workspaces_.push_back(std::move(workspace_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Workspace& workspace() {
    if (!workspace_) workspace_ = std::make_unique<Workspace>();
    return *workspace_;
  }

 private:
  const BpeTokenizer& tokenizer_;
  std::unique_ptr<Workspace> workspace_;
};

BpeTokenizer::BpeTokenizer(BpeTokenizerParts parts)
    : parts_(std::move(parts)), bpe_(parts_.vocabulary, std::exchange(parts_.rules, {})) {
  // Among equal patterns the reference library prefers special tokens.
  std::stable_partition(parts_.added_tokens.begin(), parts_.added_tokens.end(),
                        [](const AddedToken& token) { return token.special; });
  for (const AddedToken& token : parts_.added_tokens) place_added_token(token);
  end_of_document_ = find_special(parts_.added_tokens, kEndOfDocumentNames);
  if (parts_.strip_space) begin_of_text_ = find_special(parts_.added_tokens, kBeginOfTextNames);
  fingerprint_ = make_fingerprint();
}

BpeTokenizer::~BpeTokenizer() = default;

void BpeTokenizer::place_added_token(const AddedToken& token) {
  Vocabulary& vocabulary = parts_.vocabulary;
  require(!token.content.empty() && token.content.size() <= kMaxAddedTokenBytes, ErrorKind::Data,
          "{}: added token {} has {} bytes; expected 1 to {}", vocabulary.source(), token.id,
          token.content.size(), kMaxAddedTokenBytes);
  const std::int32_t id_in_model = vocabulary.find(token.content);
  require(id_in_model < 0 || id_in_model == token.id, ErrorKind::Data,
          "{}: added token '{}' has id {}, but {} in the vocabulary", vocabulary.source(),
          token.content, token.id, id_in_model);
  if (id_in_model < 0) vocabulary.add_outside_model(token.content, token.id);

  if (!token.normalized) return raw_added_tokens_.add(token, token.content);
  std::string pattern = token.content;
  if (parts_.normalizer) parts_.normalizer->apply(token.content, pattern);
  require(!pattern.empty(), ErrorKind::Data,
          "{}: the normalizer leaves nothing of added token '{}'", vocabulary.source(),
          token.content);
  normalized_added_tokens_.add(token, pattern);
}

std::uint64_t BpeTokenizer::make_fingerprint() const {
  // Without a normalizer, one kind of added tokens is found like the other.
  const bool one_kind =
      !parts_.normalizer && (raw_added_tokens_.empty() || normalized_added_tokens_.empty());
  std::vector<std::string> tokens;
  for (const AddedToken& token : parts_.added_tokens) {
    tokens.push_back(fmt::format("{}:{}:{}{}{}{}", token.id, token.content, token.single_word,
                                 token.lstrip, token.rstrip, token.normalized && !one_kind));
  }
  std::sort(tokens.begin(), tokens.end());
  const std::string text =
      fmt::format("{:x} {:x} {} | {} | {}", parts_.vocabulary.checksum(), bpe_.checksum(),
                  parts_.normalizer ? parts_.normalizer->description() : "",
                  parts_.pretokenizer->description(), fmt::join(tokens, "\n"));
  return checksum(std::as_bytes(std::span(text)));
}

void BpeTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::string repaired;
  if (valid_utf8_prefix(text) < text.size()) text = repaired = replace_invalid_utf8(text);
  Lease lease(*this);
  Workspace& workspace = lease.workspace();
  workspace.raw_spans.clear();
  raw_added_tokens_.find(text, workspace.raw_spans);
  for (const AddedTokenSpan& span : workspace.raw_spans) {
    if (span.id >= 0) {
      ids.push_back(span.id);
    } else {
      encode_normalized(text.substr(span.begin, span.end - span.begin), workspace, ids);
    }
  }
}

void BpeTokenizer::encode_normalized(std::string_view text, Workspace& workspace,
                                     std::vector<std::int32_t>& ids) const {
  if (parts_.normalizer && parts_.normalizer->apply(text, workspace.normalized)) {
    text = workspace.normalized;
  }
  if (normalized_added_tokens_.empty()) return encode_words(text, workspace, ids);
  workspace.normalized_spans.clear();
  normalized_added_tokens_.find(text, workspace.normalized_spans);
  for (const AddedTokenSpan& span : workspace.normalized_spans) {
    if (span.id >= 0) {
      ids.push_back(span.id);
    } else {
      encode_words(text.substr(span.begin, span.end - span.begin), workspace, ids);
    }
  }
}

void BpeTokenizer::encode_words(std::string_view text, Workspace& workspace,
                                std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  WordEncoder encoder(bpe_, workspace.words, text, ids);
  parts_.pretokenizer->split(text, encoder);
  encoder.finish();
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  std::int32_t last = -1;
  for (const std::int32_t id : ids) {
    if (const std::string* const bytes = parts_.vocabulary.bytes(id)) {
      const bool strip = last >= 0 && last == begin_of_text_ && bytes->starts_with(' ');
      text.append(*bytes, strip ? 1 : 0);
    }
    last = id;
  }
  return text;
}

void BpeTokenizer::save(const std::filesystem::path& folder) const {
  for (const BpeTokenizerParts::File& file : parts_.files) {
    write_file_atomically(folder / file.name, file.content);
  }
}

}  // namespace flywheel
