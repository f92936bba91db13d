#include "train/tensor_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/safetensors.h"

namespace flywheel {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements

std::vector<std::int64_t> extents_of(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int axis = 0; axis < shape.rank(); ++axis) extents.push_back(shape[axis]);
  return extents;
}

void write_tensor(SafetensorsWriter& writer, const NamedTensor& tensor, Backend& backend,
                  std::vector<float>& buffer) {
  const std::int64_t elements = tensor.view.elements();
  const TensorView flat = tensor.view.reshaped({elements});
  for (std::int64_t begin = 0; begin < elements; begin += kChunk) {
    const std::int64_t end = std::min(elements, begin + kChunk);
    backend.download(buffer.data(), flat.rows(begin, end));
    writer.write(tensor.name, std::as_bytes(std::span(buffer).first(end - begin)));
  }
}

}  // namespace

void write_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                   Backend& backend) {
  std::map<std::string, const NamedTensor*> by_name;
  std::vector<SafetensorsWriter::Tensor> header;
  for (const NamedTensor& tensor : tensors) {
    by_name[tensor.name] = &tensor;
    header.push_back({tensor.name, "F32", extents_of(tensor.view.shape)});
  }
  backend.synchronize();
  SafetensorsWriter writer(path, std::move(header));
  std::vector<float> buffer(kChunk);
  for (const SafetensorsWriter::Tensor& tensor : writer.tensors()) {
    write_tensor(writer, *by_name.at(tensor.name), backend, buffer);
  }
  writer.close();
}

void read_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                  Backend& backend) {
  const SafetensorsReader reader(path);
  for (const NamedTensor& tensor : tensors) {
    const SafetensorsEntry* entry = reader.find(tensor.name);
    require(entry != nullptr, ErrorKind::Data, "{}: the tensor '{}' is missing", path.string(),
            tensor.name);
    const auto expected = extents_of(tensor.view.shape);
    require(entry->dtype == "F32" && entry->shape == expected, ErrorKind::Data,
            "{}: tensor '{}' is {} [{}], expected F32 [{}]", path.string(), tensor.name,
            entry->dtype, fmt::join(entry->shape, ", "), fmt::join(expected, ", "));
  }
  require(reader.entries().size() == tensors.size(), ErrorKind::Data,
          "{}: holds {} tensors, expected {}", path.string(), reader.entries().size(),
          tensors.size());
  for (const NamedTensor& tensor : tensors) {
    backend.upload(tensor.view, reader.find(tensor.name)->bytes.data());
  }
}

}  // namespace flywheel
