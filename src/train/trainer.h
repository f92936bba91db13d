#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "data/loader.h"
#include "data/tokenizer.h"
#include "model/transformer.h"
#include "train/batch_slice.h"
#include "train/checkpoint_state.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "train/train_config.h"
#include "train/validation.h"

namespace flywheel {

struct StepReport {
  std::int64_t step = 0;
  double loss = 0;  // nats a token
  double gradient_norm = 0;
  double learning_rate = 0;
  double data_wait_seconds = 0;
  bool skipped = false;  // no update: loss or gradient were not finite
  std::string culprit;   // what was not finite
};

// A run's model, optimizer and data, and the steps that change them. Same config and seed: same
// bits, at any number of threads, with any recompute policy, and after any resume. Several ranks
// take equal shares of every batch and call the same; their number changes the order of sums alone.
class Trainer {
 public:
  // Of a resolved config. With a checkpoint, `folder` is where it lies; without one the weights are
  // initialised. Error Data if tokenizer, shards and model do not fit each other, or the
  // checkpoint's data are other ones; Error Config if the ranks cannot share a batch.
  Trainer(const RunConfig& config, Backend& backend, Communicator& ranks,
          const CheckpointState* checkpoint = nullptr, const std::filesystem::path& folder = {});
  // The same as the only rank.
  Trainer(const RunConfig& config, Backend& backend, const CheckpointState* checkpoint = nullptr,
          const std::filesystem::path& folder = {});

  // Takes one step. Error Data, before the weights change, if loss or gradient are not finite and
  // the config does not say to skip such a step.
  StepReport step();
  // Mean loss on the validation slice, in nats a token. Only with a validation set.
  double validate();
  bool has_validation() const { return validation_.has_value(); }

  // The state after the last step; files are the store's to fill in.
  CheckpointState state() const;
  // The optimizer's state of all ranks; all call it before one writes.
  OptimizerState optimizer_state() { return optimizer_->state(); }
  // Writes model, optimizer, tokenizer and model config into a folder.
  void write_files(const std::filesystem::path& folder, const OptimizerState& optimizer);
  void write_files(const std::filesystem::path& folder) { write_files(folder, optimizer_state()); }

  std::int64_t steps_taken() const { return step_; }
  std::int64_t skipped_steps() const { return skipped_; }
  double epochs() const { return loader_->epochs(); }
  const DataSummary& data() const { return loader_->summary(); }
  Transformer& model() { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  StepSums accumulate_gradients(const Batch& batch);  // the mean loss in place of the sum
  void refuse_non_finite(const StepReport& report) const;
  void restore(const CheckpointState& checkpoint, const std::filesystem::path& folder);
  void check_data(const CheckpointState& checkpoint) const;

  RunConfig config_;
  Backend& backend_;
  Communicator& ranks_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Transformer> model_;
  std::optional<Optimizer> optimizer_;
  std::optional<Validation> validation_;
  Schedule schedule_;
  BatchSlicer slicer_;
  std::int64_t step_ = 0;
  std::int64_t skipped_ = 0;
};

// The sizes that the config asks of the model.
TransformerLimits limits_of(const RunConfig& config);
LoaderConfig loader_config_of(const RunConfig& config);

}  // namespace flywheel
