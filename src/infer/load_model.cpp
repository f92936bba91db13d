#include "infer/load_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/file_io.h"
#include "core/interleaved_rows.h"
#include "core/system_memory.h"
#include "infer/model_weights.h"
#include "model/parameters.h"

namespace flywheel {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements

StoredType stored(DType dtype) {
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

// Rows of a file's tensor as the model keeps them: copied where the types are the same.
class RowReader {
 public:
  RowReader(const WeightsSource& weights, const StoredTensor& tensor, DType kept)
      : weights_(weights),
        tensor_(tensor),
        type_(stored(kept)),
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

// How the matrices of a file are kept without a loss, if all are of one kind.
DType kept_type(const WeightsSource& weights, const ModelConfig& config) {
  std::set<StoredType> types;
  for (const ParameterSpec& spec : lay_out_parameters(with_defaults(config)).specs) {
    if (!spec.is_matrix) continue;
    const StoredTensor* tensor = weights.find(spec.name);
    if (tensor != nullptr) types.insert(tensor->type);
    if (spec.slot.shape[1] % kWeightBlock != 0) return DType::F32;
  }
  if (types.size() != 1) return DType::F32;
  for (const DType dtype : {DType::BF16, DType::F16, DType::Q8_0}) {
    if (types.contains(stored(dtype))) return dtype;
  }
  return DType::F32;
}

double gibibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

}  // namespace

void require_memory(const ModelConfig& config, const TransformerLimits& limits) {
  const auto available = available_memory();
  if (!available) return;
  std::int64_t needed = 0;
  std::int64_t parameters = 0;
  for (const MemoryLine& line : Transformer::memory(config, limits)) {
    needed += line.bytes;
    if (line.name == "parameters") parameters = line.bytes;
  }
  require(needed <= *available, ErrorKind::Device,
          "the model needs {:.2f} GiB (parameters in {} {:.2f} GiB, activations for {} tokens "
          "{:.2f} GiB), but {:.2f} GiB are available: take a smaller model, fewer tokens or "
          "--weights q8_0",
          gibibytes(needed), name_of(limits.weights), gibibytes(parameters), limits.max_tokens,
          gibibytes(needed - parameters), gibibytes(*available));
}

DType weights_type(const WeightsSource& weights, const ModelConfig& config,
                   const std::string& wanted) {
  if (wanted == "file") return kept_type(weights, config);
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16, DType::Q8_0}) {
    if (wanted == name_of(dtype)) return dtype;
  }
  fail(ErrorKind::Config, "--weights {}: expected file, f32, bf16, f16 or q8_0", wanted);
}

void load_weights(Transformer& model, Backend& backend, const WeightsSource& weights) {
  std::set<std::string> used;
  for (const Parameter& parameter : model.parameters()) {
    load_parameter(weights, parameter, backend);
    used.insert(parameter.name);
  }
  require_all_used(weights, used, model.config());
  backend.synchronize();
}

std::unique_ptr<Transformer> load_transformer(const WeightsSource& weights,
                                              const ModelConfig& config, Backend& backend,
                                              const TransformerLimits& limits) {
  require_memory(config, limits);
  auto model = std::make_unique<Transformer>(config, backend, limits);
  load_weights(*model, backend, weights);
  return model;
}

}  // namespace flywheel
