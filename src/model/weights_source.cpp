#include "model/weights_source.h"

#include <algorithm>

#include "core/error.h"

namespace flywheel {

std::int64_t StoredTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::int64_t StoredTensor::row_elements() const {
  const bool by_element = shape.size() == 1 && interleaved_heads > 0;
  return shape.empty() || by_element ? 1 : shape.back();
}

std::int64_t StoredTensor::rows() const {
  return row_elements() == 0 ? 0 : elements() / row_elements();
}

std::span<const std::byte> StoredTensor::row(std::int64_t index) const {
  std::int64_t stored = index;
  if (interleaved_heads > 0) {
    const std::int64_t head_rows = rows() / interleaved_heads;
    const std::int64_t within = index % head_rows;
    const std::int64_t half = within / (head_rows / 2);
    stored = index - within + 2 * (within % (head_rows / 2)) + half;
  }
  const BlockSize block = block_of(type);
  const std::int64_t row_bytes = row_elements() / block.elements * block.bytes;
  return bytes.subspan(static_cast<std::size_t>(stored * row_bytes),
                       static_cast<std::size_t>(row_bytes));
}

const StoredTensor* WeightsSource::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void WeightsSource::require_supported(const StoredTensor& tensor) const {
  require(tensor.type != StoredType::Unsupported, ErrorKind::Data,
          "{}: tensor '{}' is {}; supported are {}", path_.string(), tensor.name, tensor.type_name,
          kStoredTypes);
}

void WeightsSource::read_rows(const StoredTensor& tensor, std::int64_t begin,
                              std::span<float> out) const {
  require_supported(tensor);
  const auto width = static_cast<std::size_t>(tensor.row_elements());
  const auto count = width == 0 ? 0 : static_cast<std::int64_t>(out.size() / width);
  require(begin >= 0 && count <= tensor.rows() - begin, ErrorKind::Internal,
          "{}: tensor '{}' has no rows {} to {}", path_.string(), tensor.name, begin,
          begin + count);
  if (tensor.interleaved_heads == 0) {
    if (count > 0) to_floats(tensor.type, tensor.row(begin).data(), out);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to_floats(tensor.type, tensor.row(begin + i).data(),
              out.subspan(static_cast<std::size_t>(i) * width, width));
  }
}

void WeightsSource::add(StoredTensor tensor) {
  const std::string& name = tensor.name;
  const BlockSize block = block_of(tensor.type);
  const std::int64_t blocks = tensor.elements() / block.elements;
  if (tensor.type != StoredType::Unsupported) {
    require(tensor.row_elements() % block.elements == 0, ErrorKind::Data,
            "{}: tensor '{}' has rows of {} elements, which are no whole blocks of {}",
            path_.string(), name, tensor.row_elements(), tensor.type_name);
    require(static_cast<std::int64_t>(tensor.bytes.size()) == blocks * block.bytes, ErrorKind::Data,
            "{}: tensor '{}' has {} bytes, expected {}", path_.string(), name, tensor.bytes.size(),
            blocks * block.bytes);
  }
  require(tensor.interleaved_heads == 0 ||
              (tensor.rows() > 0 && tensor.rows() % (2 * tensor.interleaved_heads) == 0),
          ErrorKind::Data, "{}: tensor '{}' has {} rows, which are not {} heads of an even size",
          path_.string(), name, tensor.rows(), tensor.interleaved_heads);
  std::string key = name;
  require(tensors_.try_emplace(std::move(key), std::move(tensor)).second, ErrorKind::Data,
          "{}: two tensors are named '{}'", path_.string(), name);
}

void WeightsSource::add_stack(const StoredTensor& stack, std::span<const std::string> names) {
  require(!stack.shape.empty() && stack.shape[0] == static_cast<std::int64_t>(names.size()),
          ErrorKind::Data, "{}: tensor '{}' should be a stack of {}", path_.string(), stack.name,
          names.size());
  const std::size_t bytes = names.empty() ? 0 : stack.bytes.size() / names.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    StoredTensor part = stack;
    part.name = names[i];
    part.shape.erase(part.shape.begin());
    part.bytes = stack.bytes.subspan(i * bytes, bytes);
    add(std::move(part));
  }
}

}  // namespace flywheel
