#include "infer/load_parameter.h"

#include <algorithm>

#include "core/file_io.h"
#include "core/interleaved_rows.h"
#include "infer/model_weights.h"

namespace flywheel {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements

// Rows of a file's tensor as the model keeps them: copied where the types are the same.
class RowReader {
 public:
  RowReader(const WeightsSource& weights, const StoredTensor& tensor, DType kept)
      : weights_(weights),
        tensor_(tensor),
        type_(stored_as(kept)),
        interleaved_(kept == DType::Q8_0x16) {}

  std::int64_t row_bytes() const {
    const BlockSize block = block_of(type_);
    return width() / block.elements * block.bytes;
  }

  // If they are interleaved, whole groups: a last one that is not is filled up with zeros.
  std::span<const std::byte> read(std::int64_t begin, std::int64_t rows) {
    read_in_order(begin, rows);
    if (!interleaved_) return bytes_;
    const std::int64_t whole = (rows + kInterleavedRows - 1) / kInterleavedRows * kInterleavedRows;
    bytes_.resize(static_cast<std::size_t>(whole * row_bytes()));
    groups_.resize(bytes_.size());
    for (std::int64_t row = 0; row < whole; row += kInterleavedRows) {
      interleave_rows(bytes_.data() + row * row_bytes(), width(),
                      groups_.data() + row * row_bytes());
    }
    return groups_;
  }

  std::int64_t width() const { return std::max<std::int64_t>(1, tensor_.row_elements()); }

 private:
  void read_in_order(std::int64_t begin, std::int64_t rows) {
    bytes_.resize(static_cast<std::size_t>(rows * row_bytes()));
    if (tensor_.type == type_) {
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto row = tensor_.row(begin + i);
        std::copy(row.begin(), row.end(), bytes_.begin() + i * row_bytes());
      }
    } else {
      floats_.resize(static_cast<std::size_t>(rows * width()));
      weights_.read_rows(tensor_, begin, floats_);
      from_floats(type_, floats_, bytes_.data());
    }
  }

  const WeightsSource& weights_;
  const StoredTensor& tensor_;
  StoredType type_;
  bool interleaved_;
  std::vector<float> floats_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> groups_;
};

}  // namespace

StoredType stored_as(DType dtype) {
  switch (dtype) {
    case DType::BF16:
      return StoredType::BF16;
    case DType::F16:
      return StoredType::F16;
    case DType::Q8_0:
    case DType::Q8_0x16:
      return StoredType::Q8_0;
    default:
      return StoredType::F32;
  }
}

void load_parameter(const WeightsSource& weights, const Parameter& parameter, Backend& backend) {
  const StoredTensor& tensor = find_tensor(weights, parameter.name, parameter.shape);
  const TensorView& value = parameter.value;
  RowReader reader(weights, tensor, value.dtype);
  const std::int64_t chunk =
      std::max<std::int64_t>(1, kChunk / reader.width() / kInterleavedRows) * kInterleavedRows;
  for (std::int64_t begin = 0; begin < tensor.rows(); begin += chunk) {
    const auto bytes = reader.read(begin, std::min(chunk, tensor.rows() - begin));
    const std::int64_t rows = static_cast<std::int64_t>(bytes.size()) / reader.row_bytes();
    const TensorView part(value.data + begin * reader.row_bytes(), value.dtype,
                          {rows * reader.width()}, value.device);
    backend.upload(part, bytes.data());
  }
  release_mapped(tensor.bytes);
}

}  // namespace flywheel
