#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file_io.h"
#include "core/stored_type.h"

namespace flywheel {

// A tensor as it lies in a mapped file, under Hugging Face's name and shape.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // row-major
  StoredType type = StoredType::Unsupported;
  std::string type_name;  // as the file spells it
  std::span<const std::byte> bytes;
  // llama.cpp's order of the rows of q and k: row 2 m + half of a head stands for row
  // half D/2 + m. 0: in order.
  std::int64_t interleaved_heads = 0;

  std::int64_t elements() const;
  std::int64_t row_elements() const;  // of a matrix; a vector is one row, if it is in order
  std::int64_t rows() const;
  // The bytes of a row, whole blocks of `type`.
  std::span<const std::byte> row(std::int64_t index) const;
};

// The weights of a model: where each tensor lies in the files that are mapped. Nothing is read
// before it is asked for. huggingface_weights.h, gguf_model.h and llama2c_model.h open one.
class WeightsSource {
 public:
  // `path` is what errors name.
  explicit WeightsSource(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;  // nullptr where absent

  // Error Data if the type is none that can be read.
  void require_supported(const StoredTensor& tensor) const;

  // Rows [begin, begin + out.size() / row_elements) as float32. Error Data if the type is not
  // supported.
  void read_rows(const StoredTensor& tensor, std::int64_t begin, std::span<float> out) const;

  // For those who open a source. The owner keeps the bytes mapped. Error Data: a name twice, or a
  // size that does not go with shape and type.
  void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }
  void add(StoredTensor tensor);
  // A [count, rows...] stack of equal tensors, one name each.
  void add_stack(const StoredTensor& stack, std::span<const std::string> names);

 private:
  std::filesystem::path path_;
  std::vector<std::shared_ptr<const void>> owners_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

}  // namespace flywheel
