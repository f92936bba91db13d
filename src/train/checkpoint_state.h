#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/fields.h"
#include "train/train_config.h"

namespace flywheel {

// A file of a checkpoint as it was written.
struct CheckpointFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string checksum;  // XXH3, hexadecimal

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("name", self.name, "file in the checkpoint's folder");
    visit("bytes", self.bytes, "its size");
    visit("xxh3", self.checksum, "its checksum");
  }
};

// The file of a checkpoint that holds its CheckpointState.
constexpr const char* kStateFile = "state.json";

// state.json: where a run stands. Everything else of a step follows from the config.
struct CheckpointState {
  std::int64_t format = 1;
  std::string version;             // of the program that wrote it
  std::int64_t step = 0;           // steps that were taken
  std::int64_t tokens = 0;         // that were trained on
  std::int64_t data_windows = 0;   // position of the loader
  std::int64_t skipped_steps = 0;  // steps without an update, for non-finite gradients
  std::optional<double> validation_loss;
  std::string data_fingerprint;  // of the training shards
  std::int64_t data_tokens = 0;
  std::string tokenizer_fingerprint;
  std::vector<CheckpointFile> files;
  RunConfig config;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("format", self.format, "version of this file's layout");
    visit("version", self.version, "of the program");
    visit("step", self.step, "steps taken");
    visit("tokens", self.tokens, "tokens trained on");
    visit("data_windows", self.data_windows, "position in the data");
    visit("skipped_steps", self.skipped_steps, "steps without an update");
    visit("validation_loss", self.validation_loss, "at this step");
    visit("data_fingerprint", self.data_fingerprint, "of the training shards");
    visit("data_tokens", self.data_tokens, "in the training shards");
    visit("tokenizer_fingerprint", self.tokenizer_fingerprint, "of the tokenizer");
    visit("files", self.files, "the other files of the checkpoint");
    visit("config", self.config, "the run's config");
  }
};

// state.json's text carries a checksum of itself as its last key.
std::string state_to_json(const CheckpointState& state);
CheckpointState read_state(const std::filesystem::path& file);  // Error Data or Io

// How a config differs from the one that a checkpoint was made with.
struct ConfigChanges {
  std::vector<std::string> refused;  // "model.layers: 12 in the checkpoint, now 16"
  std::vector<std::string> noted;    // allowed, but the run is no longer what it would have been
};
ConfigChanges compare_configs(const RunConfig& checkpoint, const RunConfig& now);

}  // namespace flywheel
