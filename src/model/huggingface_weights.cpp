#include "model/huggingface_weights.h"

#include <fmt/format.h>

#include <set>

#include "core/error.h"
#include "core/json_fields.h"
#include "core/safetensors.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;

bool begins_with_any(std::string_view name, std::initializer_list<std::string_view> starts) {
  for (const std::string_view start : starts) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

std::string full_name(const std::string& name) {
  return begins_with_any(name, {"h.", "wte.", "wpe.", "ln_f."}) ? "transformer." + name : name;
}

// [E, 2 Im, d], the gates' rows before those of up; or [E, d, Im].
void add_experts(WeightsSource& source, const StoredTensor& stack, const std::string& prefix,
                 bool gate_up) {
  require(stack.shape.size() == 3 && stack.shape[0] > 0, ErrorKind::Data,
          "{}: tensor '{}' is not a stack of matrices", source.path().string(), stack.name);
  std::vector<std::string> names;
  StoredTensor halves = stack;
  for (std::int64_t expert = 0; expert < stack.shape[0]; ++expert) {
    const std::string start = fmt::format("{}{}.", prefix, expert);
    if (!gate_up) names.push_back(start + "down_proj.weight");
    if (gate_up) names.insert(names.end(), {start + "gate_proj.weight", start + "up_proj.weight"});
  }
  if (gate_up) {
    require(stack.shape[1] % 2 == 0, ErrorKind::Data, "{}: tensor '{}' has an odd number of rows",
            source.path().string(), stack.name);
    halves.shape = {2 * stack.shape[0], stack.shape[1] / 2, stack.shape[2]};
  }
  source.add_stack(halves, names);
}

void add_tensor(WeightsSource& source, const SafetensorsEntry& entry) {
  StoredTensor tensor{.name = full_name(entry.name),
                      .shape = entry.shape,
                      .type = stored_type(entry.dtype),
                      .type_name = entry.dtype,
                      .bytes = entry.bytes};
  const std::string& name = tensor.name;
  for (const bool gate_up : {true, false}) {
    const std::string_view end = gate_up ? "gate_up_proj" : "down_proj";
    if (!name.ends_with(fmt::format(".experts.{}", end))) continue;
    return add_experts(source, tensor, name.substr(0, name.size() - end.size()), gate_up);
  }
  source.add(std::move(tensor));
}

std::shared_ptr<const SafetensorsReader> open_file(WeightsSource& source, const fs::path& path) {
  auto reader = std::make_shared<const SafetensorsReader>(path);
  source.keep(reader);
  return reader;
}

// Tensor names by the file that holds them.
std::map<std::string, std::set<std::string>> read_index(const fs::path& path) {
  require(fs::file_size(path) <= kMaxIndexBytes, ErrorKind::Data, "{}: larger than 64 MiB",
          path.string());
  const Json json = parse_json(read_text_file(path), path.string());
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  require(map != json.end() && map->is_object(), ErrorKind::Data,
          "{}: no \"weight_map\"; expected an object of tensor names and files", path.string());
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    require(!name.empty() && fs::path(name).filename().string() == name, ErrorKind::Data,
            "{}: weight_map.{}: expected the name of a file in this folder", path.string(), tensor);
    files[name].insert(tensor);
  }
  return files;
}

}  // namespace

WeightsSource open_huggingface_weights(const fs::path& folder) {
  if (fs::exists(folder / kSingleFile)) {
    WeightsSource source(folder / kSingleFile);
    const auto reader = open_file(source, source.path());
    for (const SafetensorsEntry& entry : reader->entries()) add_tensor(source, entry);
    return source;
  }
  const fs::path index = folder / kIndexFile;
  require(fs::exists(index), ErrorKind::Data, "{}: no weights; expected {} or {}", folder.string(),
          kSingleFile, kIndexFile);
  WeightsSource source(index);
  for (const auto& [file, tensors] : read_index(index)) {
    const auto reader = open_file(source, folder / file);
    for (const std::string& name : tensors) {
      const SafetensorsEntry* entry = reader->find(name);
      require(entry != nullptr, ErrorKind::Data,
              "{}: the tensor '{}' is missing; {} places it here", reader->path().string(), name,
              kIndexFile);
      add_tensor(source, *entry);
    }
  }
  return source;
}

}  // namespace flywheel
