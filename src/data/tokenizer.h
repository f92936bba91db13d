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
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // `name` is "byte" (no file: ids 0..255 are the bytes, 256 ends a document), a tokenizer.json, or
  // a folder that holds one or GPT-2's encoder.json and vocab.bpe. Error Data names the file and
  // what is wrong.
  static std::unique_ptr<Tokenizer> load(const std::string& name);

  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;  // appends
  virtual std::string decode(
      std::span<const std::int32_t> ids) const = 0;  // bytes, perhaps not UTF-8
  virtual std::int64_t vocab_size() const = 0;       // highest id + 1

  // The id that begins every document in a shard ("<|endoftext|>" or its like); -1 if there is
  // none.
  virtual std::int32_t end_of_document() const = 0;

  // Equal for tokenizers that give equal ids: a checksum of vocabulary, merges and rules.
  virtual std::uint64_t fingerprint() const = 0;

  // Writes the files that load() reads back from `folder`; nothing for "byte".
  virtual void save(const std::filesystem::path& folder) const = 0;
};

}  // namespace flywheel
