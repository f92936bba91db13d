#include "train/checkpoint_state.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"

namespace flywheel {
namespace {

constexpr const char* kChecksumKey = "checksum";

std::string checksum_of(const Json& state) {
  const std::string text = state.dump();
  return checksum_text(checksum(std::as_bytes(std::span(text))));
}

// Paths whose values decide what the parameters or the data are, and those that decide how they
// change.
constexpr std::array<std::string_view, 5> kFixed{"model.", "data.sequence_length",
                                                 "data.document_mask", "data.seed", "train.seed"};
constexpr std::array<std::string_view, 7> kNoted{
    "optimizer.",   "schedule.",       "train.max_steps",        "train.global_batch_tokens",
    "train.device", "train.precision", "train.matmul_algorithms"};

bool matches(std::span<const std::string_view> prefixes, std::string_view path) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return path.starts_with(prefix); });
}

// Files may move (their fingerprint tells whether they are the same), their weights may not change.
bool is_fixed(std::string_view path) {
  return matches(kFixed, path) || (path.starts_with("data.train.") && path.ends_with(".weight"));
}

std::map<std::string, std::string> values_of(const RunConfig& config) {
  std::map<std::string, std::string> values;
  for (const FieldRow& row : config_rows(write_fields(config), Json()))
    values[row.path] = row.value;
  return values;
}

}  // namespace

std::string state_to_json(const CheckpointState& state) {
  Json json = write_fields(state);
  json[kChecksumKey] = checksum_of(json);
  return json.dump(2) + "\n";
}

CheckpointState read_state(const std::filesystem::path& file) {
  try {
    Json json = read_json_file(file);
    require(json.is_object() && json.contains(kChecksumKey), ErrorKind::Data,
            "{}: has no checksum of itself", file.string());
    const Json stated = json[kChecksumKey];
    json.erase(kChecksumKey);
    require(stated == checksum_of(json), ErrorKind::Data,
            "{}: damaged (its content has another checksum than it states)", file.string());
    CheckpointState state;
    ConfigFaults faults(file.string());
    read_fields(state, json, faults);
    faults.throw_if_any();
    require(state.format == 1, ErrorKind::Data, "{}: layout {} is not known to this version",
            file.string(), state.format);
    return state;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) throw;
    fail(ErrorKind::Data, "{}", error.what());
  }
}

ConfigChanges compare_configs(const RunConfig& checkpoint, const RunConfig& now) {
  const auto before = values_of(checkpoint);
  const auto after = values_of(now);
  const auto value_in = [](const auto& values, const std::string& path) {
    const auto found = values.find(path);
    return found == values.end() ? std::string("absent") : found->second;
  };
  std::map<std::string, std::string> all = before;
  all.insert(after.begin(), after.end());
  ConfigChanges changes;
  for (const auto& [path, value] : all) {
    const std::string old = value_in(before, path);
    const std::string current = value_in(after, path);
    if (old == current) continue;
    std::string line = fmt::format("{}: {} in the checkpoint, now {}", path, old, current);
    if (is_fixed(path)) {
      changes.refused.push_back(std::move(line));
    } else if (matches(kNoted, path)) {
      changes.noted.push_back(std::move(line));
    }
  }
  return changes;
}

}  // namespace flywheel
