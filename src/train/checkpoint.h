#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint_state.h"

namespace flywheel {

// Reads a file of the checkpoint in `folder` and compares it with what was written. Error Data
// names it and what is wrong.
void verify_checkpoint_file(const std::filesystem::path& folder, const CheckpointFile& file);

// The checkpoints of a run: folders step_XXXXXXXX, each whole or absent, and the links `latest` and
// `best`.
//
// A checkpoint is written to a temporary folder, every file is flushed to the disk, state.json
// comes last with the checksum of every file, then the folder is renamed and `latest` moved.
// Whatever happens on the way leaves the earlier checkpoints as they are.
class CheckpointStore {
 public:
  CheckpointStore(std::filesystem::path run_folder, const CheckpointConfig& config);

  const std::filesystem::path& run_folder() const { return folder_; }
  std::filesystem::path path_of(std::int64_t step) const;
  std::vector<std::int64_t> steps() const;  // ascending; of whatever validity

  // Writes one with `write_files`, which gets the temporary folder; completes `state` with the list
  // of files; then removes checkpoints that need not be kept. An Error leaves no trace of the
  // failed one.
  void save(CheckpointState state,
            const std::function<void(const std::filesystem::path&)>& write_files);

  // Reads every file of a checkpoint and compares checksums. Error Data names the file and what is
  // wrong.
  CheckpointState verify(std::int64_t step) const;
  // The newest checkpoint that is valid. `refused` gets one line for each newer one that is not.
  std::optional<CheckpointState> newest_valid(std::vector<std::string>& refused) const;

  // Deletes what killed saves have left behind.
  void remove_leftovers() const;
  // Deletes all checkpoints and the links.
  void clear() const;

 private:
  void move_links(std::int64_t newest) const;
  void remove_old(std::int64_t newest) const;
  std::optional<std::int64_t> best_step() const;

  std::filesystem::path folder_;
  CheckpointConfig config_;
};

}  // namespace flywheel
