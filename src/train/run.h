#pragma once

#include <string>

#include "train/console.h"
#include "train/train_config.h"

namespace flywheel {

struct RunOptions {
  bool resume = false;         // go on from the newest valid checkpoint
  bool overwrite = false;      // delete the checkpoints that the folder holds
  std::string resume_command;  // shown when the run is interrupted
};

// Trains as the config says until its last step or until SIGINT or SIGTERM. Errors pass through;
// the checkpoints stay valid.
void run_training(const RunConfig& config, const RunOptions& options, Console& console);

// All tables of a run; trains nothing and writes nothing.
void preview_run(const RunConfig& config, Console& console);

}  // namespace flywheel
