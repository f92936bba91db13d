#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/stored_type.h"

namespace flywheel {

// The file format of ggml and llama.cpp, versions 2 and 3: metadata, a list of tensors, the
// tensors' bytes.

// A list of metadata; `bytes` are its elements as they stand in the file.
struct GgufArray {
  std::uint32_t type = 0;  // of the elements
  std::uint64_t count = 0;
  std::span<const std::byte> bytes;
};

using GgufValue = std::variant<std::int64_t, double, bool, std::string_view, GgufArray>;

struct GgufTensor {
  std::string_view name;
  std::vector<std::int64_t> shape;  // row-major: the reverse of the file's
  StoredType type = StoredType::Unsupported;
  std::string type_name;             // "Q4_K", "type 99"
  std::span<const std::byte> bytes;  // none of an unsupported type
};

// A parsed file. Strings and bytes point into it, and so must not outlive it.
class Gguf {
 public:
  // Error Data names `source` and the fault. Checked: magic, version, that all counts, strings and
  // tensors lie within the file, names twice, shapes.
  Gguf(std::span<const std::byte> file, std::string source);

  const std::string& source() const { return source_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(std::string_view name) const;  // nullptr where absent

  // Values of metadata. Error Data names a key that is missing or of another type.
  bool has(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }
  std::int64_t integer(std::string_view key) const;
  std::int64_t integer_or(std::string_view key, std::int64_t otherwise) const;
  double number(std::string_view key) const;
  double number_or(std::string_view key, double otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;

 private:
  const GgufValue& at(std::string_view key) const;
  const GgufArray& array(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

  std::string source_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace flywheel
