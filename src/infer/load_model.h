#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "data/tokenizer.h"
#include "model/model_config.h"
#include "model/transformer.h"
#include "model/weights_source.h"

namespace flywheel {

// The ids that a model's files give a meaning.
struct SpecialTokens {
  std::int32_t begin = -1;          // begins a text; -1: none
  bool begin_every_prompt = false;  // `begin` belongs before every prompt, not only an empty one
  std::vector<std::int32_t> end;    // any of them ends a text
};

// A model's files, opened but not read: the weights stay where they are until load_weights().
struct OpenedModel {
  std::filesystem::path path;
  std::string kind;  // "checkpoint", "Hugging Face folder", "GGUF file", "llama2.c file"
  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;
  SpecialTokens special;
  WeightsSource weights;
};

// Opens whatever `path` names (docs/models.md): a run's folder (its latest checkpoint), a
// checkpoint, a folder with config.json and safetensors files as Hugging Face has them, a .gguf
// file, a .bin file of llama2.c. Error Config or Data: file, field or tensor, and what is
// supported.
OpenedModel open_model(const std::filesystem::path& path);

// How a model's matrices are kept (TransformerLimits::weights): as `wanted` names it, or for "file"
// as they lie in the file where all are BF16, F16 or Q8_0, else F32. Error Config: no such type.
DType weights_type(const WeightsSource& weights, const ModelConfig& config,
                   const std::string& wanted);

// What a Transformer of these limits allocates, held against `available` bytes. Nothing if it fits;
// else the bytes that are left for units of it (weight_stream.h). Error Device with the figures if
// that is not enough.
std::optional<std::int64_t> room_for_units(const ModelConfig& config,
                                           const TransformerLimits& limits, std::int64_t available);

// A model that is ready for use, on the CPU; where memory has no room for it, a streamed one, with
// a warning. `config` may differ from the file's in its attention.
std::unique_ptr<Transformer> load_transformer(const WeightsSource& weights,
                                              const ModelConfig& config, Backend& backend,
                                              const TransformerLimits& limits);

// The same, streamed with `room` bytes for units.
std::unique_ptr<Transformer> stream_transformer(const WeightsSource& weights,
                                                const ModelConfig& config, Backend& backend,
                                                TransformerLimits limits, std::int64_t room);

// Fills the parameters. Error Data names the file and the tensor that is missing, has another shape
// or is not one of this model's.
void load_weights(Transformer& model, Backend& backend, const WeightsSource& weights);

}  // namespace flywheel
