#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flywheel {

// Text to token ids and back. Const members may be called from several threads at once.
//
// Ill-formed UTF-8: "byte" passes every byte through; the others read each maximal ill-formed part
// as U+FFFD, as a caller of the reference library does with errors="replace".
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // `name` is "byte" (no file: ids 0..255 are the bytes, 256 ends a document), a tokenizer.json, or
  // a folder that holds one or GPT-2's encoder.json and vocab.bpe. Error Data names the file and
  // what is wrong or not supported: only byte-level BPE is.
  static std::unique_ptr<Tokenizer> load(const std::string& name);

  // Appends the ids. Added tokens ("<|im_end|>") are found wherever the text spells them. No
  // beginning or end of sequence is added: a tokenizer.json's post_processor is not applied.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;

  // The tokens' bytes, perhaps not UTF-8, those of special tokens among them. Ids that are no token
  // give no bytes.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  virtual std::int64_t vocab_size() const = 0;  // highest id + 1

  // The id that begins every document in a shard; -1 if there is none. In a tokenizer.json it is
  // the first of "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<|eos|>",
  // "<eos>" and "[EOS]" among the added tokens that are marked special.
  virtual std::int32_t end_of_document() const = 0;

  // Equal for tokenizers that give equal ids: a checksum of vocabulary, merges and rules. GPT-2's
  // pair of files and a tokenizer.json with the same content agree.
  virtual std::uint64_t fingerprint() const = 0;

  // Writes the files that load() reads back from `folder`; nothing for "byte".
  virtual void save(const std::filesystem::path& folder) const = 0;
};

}  // namespace flywheel
