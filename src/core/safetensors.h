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

namespace flywheel {

// The file format of huggingface/safetensors: eight bytes of header length, a JSON header, the
// tensors.

// Bytes of an element of a dtype as the format spells it ("F32", "BF16", "I64", ...); 0: not
// supported.
std::int64_t safetensors_element_size(std::string_view dtype);

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;   // [] is a scalar
  std::span<const std::byte> bytes;  // row-major, little-endian; perhaps not aligned to the element
  std::int64_t elements() const;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// Reads a whole file's bytes; the entries point into them. Error Data names `source` and the fault.
// Checked: length of the header, its JSON, names twice, dtypes, sizes, and that the tensors tile
// the rest of the file.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& source);

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  std::span<const SafetensorsEntry> entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const SafetensorsEntry* find(std::string_view name) const;  // nullptr where absent
  // As float32, elements [begin, begin + out.size()) of an F32, BF16, F16 or F64 tensor; Error Data
  // else.
  void read_floats(const SafetensorsEntry& entry, std::int64_t begin, std::span<float> out) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

// Writes a file tensor by tensor, so that only the caller's buffer is in memory. Metadata is what
// every reader accepts, {"format": "pt"}.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
  };

  SafetensorsWriter(const std::filesystem::path& path, std::vector<Tensor> tensors);

  // The order in which the bytes must come: element size descending, then name.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // The next bytes; a tensor may come in pieces, and pieces may not span tensors.
  void write(std::string_view name, std::span<const std::byte> bytes);
  void close();  // fsyncs; Error Internal if bytes are missing

 private:
  std::filesystem::path path_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<FileWriter> file_;
  std::size_t current_ = 0;        // index into tensors_
  std::size_t bytes_missing_ = 0;  // of the current tensor
  void begin_next();
};

}  // namespace flywheel
