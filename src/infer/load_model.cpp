#include "infer/load_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/log.h"
#include "core/system_memory.h"
#include "infer/load_parameter.h"
#include "infer/model_weights.h"
#include "infer/weight_stream.h"
#include "model/parameters.h"

namespace flywheel {
namespace {

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
    if (types.contains(stored_as(dtype))) return dtype;
  }
  return DType::F32;
}

double gibibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

std::int64_t memory_of(const ModelConfig& config, const TransformerLimits& limits) {
  std::int64_t bytes = 0;
  for (const MemoryLine& line : Transformer::memory(config, limits)) bytes += line.bytes;
  return bytes;
}

// Error Data if the file has a tensor that is no parameter.
void require_no_others(const WeightsSource& weights, const Transformer& model) {
  std::set<std::string> used;
  for (const Parameter& parameter : model.parameters()) used.insert(parameter.name);
  require_all_used(weights, used, model.config());
}

void warn_of_streaming(const ModelConfig& config, const TransformerLimits& limits,
                       std::int64_t available, std::int64_t room) {
  const UnitSizes sizes = unit_sizes(lay_out_parameters(with_defaults(config), limits.weights));
  log::warning(
      "the model needs {:.2f} GiB, {:.2f} are available: of its {} ({:.2f} GiB) {:.2f} GiB are "
      "kept at a time, and the others read from the file when they are needed",
      gibibytes(memory_of(config, limits)), gibibytes(available),
      config.experts.count > 0 ? "experts" : "layers", gibibytes(sizes.units), gibibytes(room));
}

}  // namespace

std::optional<std::int64_t> room_for_units(const ModelConfig& config,
                                           const TransformerLimits& limits,
                                           std::int64_t available) {
  const std::int64_t all = memory_of(config, limits);
  if (all <= available) return {};
  const ParameterLayout layout = lay_out_parameters(with_defaults(config), limits.weights);
  const UnitSizes sizes = unit_sizes(layout);
  const std::int64_t others = all - sizes.units;
  const std::int64_t for_cache = available - available / 8 * 7;  // the system's, of the file
  const std::int64_t room = available - for_cache - others;
  require(
      sizes.largest <= room, ErrorKind::Device,
      "the model needs {:.2f} GiB (parameters in {} {:.2f} GiB, activations for {} tokens "
      "{:.2f} GiB), or {:.2f} GiB with one layer at a time and {:.2f} GiB for cached files, but "
      "{:.2f} GiB are available: take a smaller model, fewer tokens or --weights q8_0",
      gibibytes(all), name_of(limits.weights), gibibytes(layout.bytes), limits.max_tokens,
      gibibytes(all - layout.bytes), gibibytes(others + sizes.largest), gibibytes(for_cache),
      gibibytes(available));
  return room;
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
  for (const Parameter& parameter : model.parameters()) {
    load_parameter(weights, parameter, backend);
  }
  require_no_others(weights, model);
  backend.synchronize();
}

std::unique_ptr<Transformer> load_transformer(const WeightsSource& weights,
                                              const ModelConfig& config, Backend& backend,
                                              const TransformerLimits& limits) {
  if (const auto available = available_memory()) {
    if (const auto room = room_for_units(config, limits, *available)) {
      warn_of_streaming(config, limits, *available, *room);
      return stream_transformer(weights, config, backend, limits, *room);
    }
  }
  auto model = std::make_unique<Transformer>(config, backend, limits);
  load_weights(*model, backend, weights);
  return model;
}

std::unique_ptr<Transformer> stream_transformer(const WeightsSource& weights,
                                                const ModelConfig& config, Backend& backend,
                                                TransformerLimits limits, std::int64_t room) {
  limits.streamed = true;
  auto model = std::make_unique<Transformer>(config, backend, limits);
  require_no_others(weights, *model);
  auto stream = std::make_shared<WeightStream>(weights, *model, backend, room);
  model->stream_weights([stream](std::int64_t layer, std::span<const std::int32_t> experts) {
    stream->need(layer, experts);
  });
  return model;
}

}  // namespace flywheel
