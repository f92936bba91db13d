#include "infer/load_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/system_memory.h"
#include "infer/model_weights.h"

namespace flywheel {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements

void load_parameter(const WeightsSource& weights, const Parameter& parameter, Backend& backend,
                    std::vector<float>& buffer) {
  const StoredTensor& tensor = find_tensor(weights, parameter.name, parameter.shape);
  const std::int64_t width = std::max<std::int64_t>(1, tensor.row_elements());
  const std::int64_t chunk = std::max<std::int64_t>(1, kChunk / width);
  const TensorView flat = parameter.value.reshaped({tensor.elements()});
  for (std::int64_t begin = 0; begin < tensor.rows(); begin += chunk) {
    const std::int64_t end = std::min(tensor.rows(), begin + chunk);
    buffer.resize(static_cast<std::size_t>((end - begin) * width));
    weights.read_rows(tensor, begin, buffer);
    backend.upload(flat.rows(begin * width, end * width), buffer.data());
  }
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
          "the model needs {:.2f} GiB (parameters in float32 {:.2f} GiB, activations for {} tokens "
          "{:.2f} GiB), but {:.2f} GiB are available: take a smaller model or fewer tokens",
          gibibytes(needed), gibibytes(parameters), limits.max_tokens,
          gibibytes(needed - parameters), gibibytes(*available));
}

void load_weights(Transformer& model, Backend& backend, const WeightsSource& weights) {
  std::set<std::string> used;
  std::vector<float> buffer;
  for (const Parameter& parameter : model.parameters()) {
    load_parameter(weights, parameter, backend, buffer);
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
