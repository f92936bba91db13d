#include <fmt/ranges.h>

#include "core/error.h"
#include "core/gguf.h"
#include "model/gguf_model.h"
#include "model/huggingface_config.h"
#include "model/huggingface_weights.h"
#include "model/llama2c_model.h"
#include "train/console.h"
#include "train/inspect.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

void describe_weights(const WeightsSource& weights, Inspection& out) {
  InspectedTable table{"tensors", {"name", "type", "shape", "bytes"}, {}, 3};
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : weights.tensors()) {
    const auto size = static_cast<std::int64_t>(tensor.bytes.size());
    elements += tensor.elements();
    bytes += size;
    table.rows.push_back({escaped(name), tensor.type_name,
                          fmt::format("[{}]", fmt::join(tensor.shape, ", ")), size});
  }
  out.add("tensor_count", static_cast<std::int64_t>(weights.tensors().size()));
  out.add("elements", elements, human_count(static_cast<double>(elements)));
  out.add("bytes", bytes, human_bytes(bytes));
  out.tables.push_back(std::move(table));
}

// Lists and long texts only by their length.
struct ShortValue {
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    return fmt::format("{}", static_cast<float>(value));
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::string_view text) const {
    constexpr std::size_t kMost = 60;
    return text.size() <= kMost ? escaped(text) : fmt::format("a text of {} bytes", text.size());
  }
  std::string operator()(const GgufArray& list) const {
    return fmt::format("a list of {}", list.count);
  }
};

void describe_metadata(const Gguf& file, Inspection& out) {
  InspectedTable table{"metadata", {"key", "value"}, {}, 2};
  for (const auto& [key, value] : file.metadata()) {
    table.rows.push_back({escaped(key), std::visit(ShortValue{}, value)});
  }
  out.tables.push_back(std::move(table));
}

}  // namespace

Inspection inspect_gguf(const fs::path& path) {
  Inspection out{.path = path.string(), .kind = "GGUF file"};
  out.guard([&] {
    const MappedFile bytes(path);
    describe_metadata(Gguf(bytes.bytes(), path.string()), out);
    const GgufModel model = open_gguf_model(path);
    describe_model(model.config, model.config.max_positions, out);
    describe_weights(model.weights, out);
  });
  return out;
}

Inspection inspect_llama2c(const fs::path& path) {
  Inspection out{.path = path.string(), .kind = "llama2.c file"};
  out.guard([&] {
    const Llama2cModel model = open_llama2c_model(path);
    describe_model(model.config, model.config.max_positions, out);
    describe_weights(model.weights, out);
  });
  return out;
}

Inspection inspect_huggingface_folder(const fs::path& folder) {
  Inspection out{.path = folder.string(), .kind = "Hugging Face folder"};
  out.guard([&] {
    const std::string config = (folder / "config.json").string();
    const ModelConfig model = from_huggingface(read_text_file(config), config);
    describe_model(model, model.max_positions, out);
  });
  out.guard([&] { describe_weights(open_huggingface_weights(folder), out); });
  return out;
}

}  // namespace flywheel
