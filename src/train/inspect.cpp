#include "train/inspect.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"
#include "data/shard_format.h"
#include "model/llama2c_model.h"
#include "train/checkpoint.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKnownKinds =
    "token files (.bin), safetensors files, tokenizers (tokenizer.json, a folder with one or with "
    "encoder.json and vocab.bpe, 'byte'), configs (.json), checkpoints (step_XXXXXXXX/), folders "
    "of runs, folders of token files, and models (Hugging Face folders, .gguf, llama2.c's .bin)";

bool is_file(const fs::path& path) {
  std::error_code unreachable;
  return fs::is_regular_file(path, unreachable);
}

bool begins_like_shard(std::string_view start) {
  if (start.size() < 8) return false;
  std::uint64_t magic = 0;
  std::copy_n(start.data(), sizeof(magic), reinterpret_cast<char*>(&magic));
  const auto foreign = static_cast<std::int32_t>(magic & 0xFFFFFFFF);
  return magic == shard_format::kMagic ||
         std::any_of(std::begin(shard_format::kForeignFormats),
                     std::end(shard_format::kForeignFormats),
                     [&](const auto& format) { return format.magic == foreign; });
}

std::string first_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(16, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  return start;
}

// The keys of a JSON file's outermost object; none where it is not valid.
std::vector<std::string> keys_of(const fs::path& path) {
  std::vector<std::string> keys;
  const auto outermost = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) keys.push_back(parsed.get<std::string>());
    return depth <= 1;
  };
  std::ifstream file(path);
  if (Json::parse(file, outermost, false).is_discarded()) keys.clear();
  return keys;
}

bool has_any(std::span<const std::string> keys, std::initializer_list<std::string_view> wanted) {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
    return std::find(wanted.begin(), wanted.end(), key) != wanted.end();
  });
}

Inspection inspect_json(const fs::path& path, const InspectOptions& options) {
  const std::string name = path.filename().string();
  if (name == "encoder.json") return inspect_tokenizer(path.parent_path().string(), options);
  if (name == kStateFile) return inspect_checkpoint(path.parent_path());
  const auto keys = keys_of(path);
  if (name == "tokenizer.json" || has_any(keys, {"added_tokens", "pre_tokenizer", "decoder"})) {
    return inspect_tokenizer(path.string(), options);
  }
  if (has_any(keys, {"model_type", "architectures", "flywheel"})) return inspect_model_config(path);
  return inspect_run_config(path);
}

// A file that lies in a checkpoint is held against the checksum that state.json has of it.
void check_against_checkpoint(const fs::path& path, Inspection& inspection) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!is_file(folder / kStateFile) || path.filename() == kStateFile) return;
  try {
    const CheckpointState state = read_state(folder / kStateFile);
    const auto file = std::find_if(state.files.begin(), state.files.end(), [&](const auto& known) {
      return known.name == path.filename().string();
    });
    if (file == state.files.end()) return;
    inspection.add("checksum", file->checksum, "XXH3, from the checkpoint's state.json");
    inspection.guard([&] { verify_checkpoint_file(folder, *file); });
  } catch (const Error&) {
    inspection.add("checksum", "unknown", "the checkpoint's state.json is damaged");
  }
}

Inspection inspect_file(const fs::path& path, const InspectOptions& options) {
  const std::string extension = path.extension().string();
  const std::string start = first_bytes(path);
  if (extension == ".gguf" || start.starts_with("GGUF")) return inspect_gguf(path);
  if (!begins_like_shard(start) && is_llama2c_model(path)) return inspect_llama2c(path);
  if (extension == ".bin" || begins_like_shard(start)) return inspect_shard(path, options);
  if (extension == ".safetensors" || (start.size() > 8 && start[8] == '{')) {
    return inspect_safetensors(path);
  }
  if (path.filename() == "vocab.bpe") {
    return inspect_tokenizer(path.parent_path().string(), options);
  }
  const std::size_t first = start.find_first_not_of(" \t\r\n");
  if (extension == ".json" || (first != start.npos && start[first] == '{')) {
    return inspect_json(path, options);
  }
  fail(ErrorKind::Config, "{}: of no kind that is known; known are {}", path.string(), kKnownKinds);
}

std::vector<fs::path> known_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".bin" || extension == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Inspection> inspect_folder(const fs::path& folder, const InspectOptions& options) {
  const std::string name = fs::canonical(folder).filename().string();
  if (is_file(folder / kStateFile) || name.starts_with("step_")) {
    return {inspect_checkpoint(folder)};
  }
  if (!CheckpointStore(folder, {}).steps().empty()) return {inspect_run(folder)};
  if (is_file(folder / "config.json") &&
      (is_file(folder / "model.safetensors") || is_file(folder / "model.safetensors.index.json"))) {
    return {inspect_huggingface_folder(folder)};
  }
  if (is_file(folder / "tokenizer.json") || is_file(folder / "encoder.json")) {
    return {inspect_tokenizer(folder.string(), options)};
  }
  std::vector<Inspection> inspections;
  for (const fs::path& file : known_files_in(folder)) {
    inspections.push_back(inspect_file(file, options));
  }
  if (inspections.empty() && is_file(folder / "metrics.jsonl")) return {inspect_run(folder)};
  require(!inspections.empty(), ErrorKind::Config,
          "{}: a folder with nothing that is known; known are {}", folder.string(), kKnownKinds);
  return inspections;
}

}  // namespace

std::vector<Inspection> inspect(const std::string& path, const InspectOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return inspect_folder(path, options);
  if (path == "byte") return {inspect_tokenizer(path, options)};
  require(is_file(path), ErrorKind::Config, "{}: no such file or folder", path);
  Inspection inspection = inspect_file(path, options);
  check_against_checkpoint(path, inspection);
  return {std::move(inspection)};
}

}  // namespace flywheel
