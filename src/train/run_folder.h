#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "train/checkpoint.h"
#include "train/console.h"
#include "train/train_config.h"

namespace flywheel {

// The folder of a run, locked against a second process for as long as the object lives.
class RunFolder {
 public:
  // Makes the folder and removes leftovers of killed saves. Error Config if another process holds
  // it.
  explicit RunFolder(const CheckpointConfig& config);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  CheckpointStore& checkpoints() { return checkpoints_; }
  const std::filesystem::path& path() const { return checkpoints_.run_folder(); }

  // Where the run goes on: the newest valid checkpoint, whose config fits `config`; refused ones
  // are reported. Error Data if all are damaged, Error Config if the config has changed in what may
  // not change.
  std::optional<CheckpointState> find_resume_point(const RunConfig& config, Console& console) const;
  // Error Config if the folder holds checkpoints.
  void require_unused() const;

 private:
  CheckpointStore checkpoints_;
  int lock_ = -1;
};

}  // namespace flywheel
