#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "model/transformer.h"
#include "train/console.h"
#include "train/train_config.h"

namespace flywheel {

// Continues the prompts of `samples` with a model of the given limits, one text a prompt.
using ContinuePrompts = std::function<std::vector<std::string>(
    Transformer& model, const TransformerLimits& limits, const Tokenizer& tokenizer,
    const SamplesConfig& samples, std::uint64_t seed)>;

struct RunOptions {
  bool resume = false;         // go on from the newest valid checkpoint
  bool overwrite = false;      // delete the checkpoints that the folder holds
  std::string resume_command;  // shown when the run is interrupted
  std::string report_program;  // shown with the run's folder at the end
  ContinuePrompts continue_prompts;
};

// Trains as the config says until its last step or until SIGINT or SIGTERM. Errors pass through;
// the checkpoints stay valid.
void run_training(const RunConfig& config, const RunOptions& options, Console& console);

// All tables of a run; trains nothing and writes nothing.
void preview_run(const RunConfig& config, Console& console);

}  // namespace flywheel
