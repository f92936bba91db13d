#include "infer/load_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/file_io.h"
#include "core/safetensors.h"
#include "model/huggingface_config.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements

std::vector<std::int64_t> extents_of(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int axis = 0; axis < shape.rank(); ++axis) extents.push_back(shape[axis]);
  return extents;
}

void load_parameter(const SafetensorsReader& reader, const Parameter& parameter, Backend& backend,
                    std::vector<float>& buffer) {
  const SafetensorsEntry* entry = reader.find(parameter.name);
  require(entry != nullptr, ErrorKind::Data, "{}: the tensor '{}' is missing",
          reader.path().string(), parameter.name);
  const auto expected = extents_of(parameter.shape);
  require(entry->shape == expected, ErrorKind::Data,
          "{}: tensor '{}' is [{}], config.json makes it [{}]", reader.path().string(),
          parameter.name, fmt::join(entry->shape, ", "), fmt::join(expected, ", "));
  const std::int64_t elements = entry->elements();
  const TensorView flat = parameter.value.reshaped({elements});
  for (std::int64_t begin = 0; begin < elements; begin += kChunk) {
    const std::int64_t end = std::min(elements, begin + kChunk);
    reader.read_floats(*entry, begin, std::span(buffer).first(end - begin));
    backend.upload(flat.rows(begin, end), buffer.data());
  }
}

}  // namespace

fs::path checkpoint_folder(const fs::path& path) {
  if (fs::exists(path / "latest")) return path / "latest";
  require(fs::exists(path / "model.safetensors"), ErrorKind::Data,
          "{}: neither a checkpoint (no model.safetensors) nor a run's folder (no latest)",
          path.string());
  return path;
}

ModelConfig read_model_config(const fs::path& checkpoint) {
  const fs::path file = checkpoint / "config.json";
  return from_huggingface(read_text_file(file), file.string());
}

void load_weights(Transformer& model, Backend& backend, const fs::path& checkpoint) {
  const SafetensorsReader reader(checkpoint / "model.safetensors");
  std::vector<float> buffer(kChunk);
  for (const Parameter& parameter : model.parameters()) {
    load_parameter(reader, parameter, backend, buffer);
  }
  backend.synchronize();
}

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& checkpoint, const ModelConfig& model) {
  const bool has_files =
      fs::exists(checkpoint / "tokenizer.json") || fs::exists(checkpoint / "encoder.json");
  auto tokenizer = Tokenizer::load(has_files ? checkpoint.string() : "byte");
  require(tokenizer->vocab_size() <= model.vocab_size, ErrorKind::Data,
          "{}: the tokenizer has {} tokens, the model {}", checkpoint.string(),
          tokenizer->vocab_size(), model.vocab_size);
  return tokenizer;
}

}  // namespace flywheel
