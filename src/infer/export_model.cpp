#include "infer/export_model.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "core/error.h"
#include "core/file_io.h"
#include "core/float16.h"
#include "core/json_fields.h"
#include "core/safetensors.h"
#include "data/tokenizer_export.h"
#include "infer/model_weights.h"
#include "model/huggingface_config.h"
#include "model/parameters.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements

// The parameters of one file.
struct Part {
  std::vector<SafetensorsWriter::Tensor> tensors;
  std::int64_t bytes = 0;
};

std::vector<Part> cut_into_parts(const ParameterLayout& layout, const ExportOptions& options) {
  std::vector<Part> parts(1);
  for (const ParameterSpec& spec : layout.specs) {
    const std::int64_t bytes = spec.slot.shape.elements() * block_of(options.type).bytes;
    if (parts.back().bytes > 0 && parts.back().bytes + bytes > options.shard_bytes) {
      parts.emplace_back();
    }
    std::vector<std::int64_t> shape;
    for (int axis = 0; axis < spec.slot.shape.rank(); ++axis)
      shape.push_back(spec.slot.shape[axis]);
    parts.back().tensors.push_back({spec.name, std::string(name_of(options.type)), shape});
    parts.back().bytes += bytes;
  }
  return parts;
}

std::string file_name(std::size_t part, std::size_t parts) {
  return parts == 1 ? "model.safetensors"
                    : fmt::format("model-{:05}-of-{:05}.safetensors", part + 1, parts);
}

// The bytes of `values` in the type of the file.
class Encoder {
 public:
  explicit Encoder(StoredType type) : type_(type) {}

  std::span<const std::byte> encode(std::span<const float> values, const std::string& name) {
    if (type_ == StoredType::F32) return std::as_bytes(values);
    halves_.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      halves_[i] = type_ == StoredType::BF16 ? float_to_bf16(values[i]) : float_to_half(values[i]);
      const bool overflow =
          type_ == StoredType::F16 && std::isfinite(values[i]) && (halves_[i] & 0x7FFFU) == 0x7C00U;
      require(!overflow, ErrorKind::Data,
              "tensor '{}' holds {}, which float16 cannot; export as bf16 or f32", name, values[i]);
    }
    return std::as_bytes(std::span(halves_));
  }

 private:
  StoredType type_;
  std::vector<std::uint16_t> halves_;
};

void write_part(const WeightsSource& weights, const Part& part, const fs::path& path,
                StoredType type) {
  SafetensorsWriter writer(path, part.tensors);
  Encoder encoder(type);
  std::vector<float> buffer;
  for (const auto& target : writer.tensors()) {
    const StoredTensor& tensor = *weights.find(target.name);
    const std::int64_t width = std::max<std::int64_t>(1, tensor.row_elements());
    const std::int64_t chunk = std::max<std::int64_t>(1, kChunk / width);
    for (std::int64_t begin = 0; begin < tensor.rows(); begin += chunk) {
      const std::int64_t rows = std::min(chunk, tensor.rows() - begin);
      buffer.resize(static_cast<std::size_t>(rows * width));
      weights.read_rows(tensor, begin, buffer);
      writer.write(target.name, encoder.encode(buffer, target.name));
    }
  }
  writer.close();
}

void write_index(const std::vector<Part>& parts, const fs::path& folder) {
  Json map = Json::object();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const auto& tensor : parts[i].tensors) map[tensor.name] = file_name(i, parts.size());
    total += parts[i].bytes;
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  write_file_atomically(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

void write_weights(const OpenedModel& model, const fs::path& folder, const ExportOptions& options) {
  const ParameterLayout layout = lay_out_parameters(with_defaults(model.config));
  std::set<std::string> used;
  for (const ParameterSpec& spec : layout.specs) {
    find_tensor(model.weights, spec.name, spec.slot.shape);
    used.insert(spec.name);
  }
  require_all_used(model.weights, used, model.config);
  const std::vector<Part> parts = cut_into_parts(layout, options);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    write_part(model.weights, parts[i], folder / file_name(i, parts.size()), options.type);
  }
  if (parts.size() > 1) write_index(parts, folder);
}

// The files that a Hugging Face folder has of its own, or what stands for them.
void write_text_files(const OpenedModel& model, const fs::path& folder) {
  const SpecialTokens& special = model.special;
  write_tokenizer_files(*model.tokenizer, folder,
                        {.begin = special.begin,
                         .begin_every_prompt = special.begin_every_prompt,
                         .end = special.end.empty() ? -1 : special.end.front(),
                         .max_length = model.config.max_positions});
  const Json begin = special.begin < 0 ? Json(nullptr) : Json(special.begin);
  const Json end = special.end.empty() ? Json(nullptr) : Json(special.end);
  const Json generation = {{"bos_token_id", begin}, {"eos_token_id", end}};
  write_file_atomically(folder / "generation_config.json", generation.dump(2) + "\n");
  if (model.kind != "Hugging Face folder") return;
  for (const char* name : {"generation_config.json", "tokenizer_config.json",
                           "special_tokens_map.json", "chat_template.jinja"}) {
    if (!fs::exists(model.path / name)) continue;
    write_file_atomically(folder / name, read_text_file(model.path / name));
  }
}

std::string dtype_name(StoredType type) {
  if (type == StoredType::F32) return "float32";
  return type == StoredType::F16 ? "float16" : "bfloat16";
}

}  // namespace

void export_model(const OpenedModel& model, const fs::path& folder, const ExportOptions& options) {
  require(options.shard_bytes > 0, ErrorKind::Config, "the size of a file must be positive, not {}",
          options.shard_bytes);
  require(!fs::exists(folder / "config.json"), ErrorKind::Config,
          "{}: already has a config.json; name a new folder", folder.string());
  create_folders(folder);
  write_weights(model, folder, options);
  write_text_files(model, folder);
  write_file_atomically(folder / "config.json",
                        to_huggingface(model.config, {.begin = model.special.begin,
                                                      .end = model.special.end,
                                                      .dtype = dtype_name(options.type)}));
}

}  // namespace flywheel
