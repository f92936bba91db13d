#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/checksum.h"
#include "core/error.h"
#include "data/token_source.h"
#include "train/model_files.h"
#include "train/tensor_files.h"

namespace flywheel {
namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";

std::vector<NamedTensor> values_of(const Transformer& model) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : model.parameters()) {
    tensors.push_back({parameter.name, parameter.value.reshaped(parameter.shape)});
  }
  return tensors;
}

// A shard's header is part of the data's fingerprint, and states the checksum of its tokens.
void verify_shards(const DataConfig& data) {
  for (const DataSourceConfig& source : data.train) {
    const TokenSource tokens(source.files);
    for (const ShardReader& shard : tokens.shards()) shard.verify_checksum();
  }
}

void check_tokenizer(const Tokenizer& tokenizer, std::uint64_t shards, const RunConfig& config,
                     const char* which) {
  require(shards == 0 || shards == tokenizer.fingerprint(), ErrorKind::Data,
          "data.{}: the token files were made by another tokenizer (fingerprint {}) than "
          "data.tokenizer, {} ({}); tokenize again or name the other one",
          which, checksum_text(shards), config.data.tokenizer,
          checksum_text(tokenizer.fingerprint()));
}

Communicator& only_rank() {
  static SingleCommunicator ranks;
  return ranks;
}

}  // namespace

TransformerLimits limits_of(const RunConfig& config) {
  const std::int64_t sequences = config.train.micro_batch_sequences;
  const std::int64_t tokens = sequences * config.data.sequence_length;
  const SamplesConfig& samples = config.samples;
  std::int64_t longest = 0;
  for (const std::string& prompt : samples.prompts) longest = std::max(longest, std::ssize(prompt));
  const bool sampling = samples.every > 0;
  return {.max_tokens = tokens,
          .max_sequences = config.data.document_mask ? tokens : sequences,
          .training = true,
          .recompute = config.train.recompute,
          .cache_slots = sampling ? std::ssize(samples.prompts) : 0,
          .cache_length =
              sampling ? std::min(config.model.max_positions, 1 + longest + samples.tokens) : 0,
          .precision = config.train.precision};
}

LoaderConfig loader_config_of(const RunConfig& config) {
  return {.sources = config.data.train,
          .sequence_length = config.data.sequence_length,
          .document_mask = config.data.document_mask,
          .seed = config.data.seed,
          .vocab_size = config.model.vocab_size};
}

Trainer::Trainer(const RunConfig& config, Backend& backend, Communicator& ranks,
                 const CheckpointState* checkpoint, const std::filesystem::path& folder)
    : config_(config),
      backend_(backend),
      ranks_(ranks),
      tokenizer_(Tokenizer::load(config.data.tokenizer)),
      schedule_(config),
      slicer_(config.data.sequence_length, limits_of(config).max_sequences) {
  require(tokenizer_->vocab_size() <= config.model.vocab_size, ErrorKind::Config,
          "model.vocab_size is {}, but the tokenizer {} has {} ids; expected at least as many",
          config.model.vocab_size, config.data.tokenizer, tokenizer_->vocab_size());
  require(config.batch_sequences() % ranks.ranks() == 0, ErrorKind::Config,
          "train.global_batch_tokens: {} sequences of {} tokens cannot be shared by {} ranks; "
          "expected a multiple",
          config.batch_sequences(), config.data.sequence_length, ranks.ranks());
  const DataPosition start{checkpoint ? checkpoint->data_windows : 0};
  loader_ = std::make_unique<Loader>(loader_config_of(config), config.batch_sequences(), start);
  check_tokenizer(*tokenizer_, data().tokenizer_fingerprint, config, "train");
  if (!config.data.validation.empty()) {
    validation_.emplace(config);
    check_tokenizer(*tokenizer_, validation_->tokenizer_fingerprint(), config, "validation");
  }
  if (checkpoint) check_data(*checkpoint);
  if (config.data.verify) verify_shards(config.data);

  model_ = std::make_unique<Transformer>(config.model, backend, limits_of(config));
  optimizer_.emplace(backend, *model_, ranks, config.optimizer, config.parallel.shard_optimizer,
                     config.train.seed);
  if (checkpoint) {
    restore(*checkpoint, folder);
  } else {
    model_->initialize(config.train.seed);
  }
}

Trainer::Trainer(const RunConfig& config, Backend& backend, const CheckpointState* checkpoint,
                 const std::filesystem::path& folder)
    : Trainer(config, backend, only_rank(), checkpoint, folder) {}

void Trainer::restore(const CheckpointState& checkpoint, const std::filesystem::path& folder) {
  read_tensors(folder / kModelFile, values_of(*model_), backend_);
  const OptimizerState optimizer = optimizer_->room_for_state();
  read_tensors(folder / kOptimizerFile, optimizer.tensors, backend_);
  optimizer_->adopt(optimizer);
  step_ = checkpoint.step;
  skipped_ = checkpoint.skipped_steps;
  model_->round_weights(config_.train.seed, step_ - skipped_);
}

void Trainer::check_data(const CheckpointState& checkpoint) const {
  const std::string fingerprint = checksum_text(data().fingerprint);
  require(checkpoint.data_fingerprint == fingerprint, ErrorKind::Data,
          "data.train: the token files are not those that the run began with (fingerprint {} of {} "
          "tokens in the checkpoint, now {} of {}); put them back, or start a new run",
          checkpoint.data_fingerprint, checkpoint.data_tokens, fingerprint, data().tokens);
  const std::string tokenizer = checksum_text(tokenizer_->fingerprint());
  require(checkpoint.tokenizer_fingerprint == tokenizer, ErrorKind::Data,
          "data.tokenizer: {} is not the tokenizer that the run began with (fingerprint {} in the "
          "checkpoint, now {})",
          config_.data.tokenizer, checkpoint.tokenizer_fingerprint, tokenizer);
}

StepSums Trainer::accumulate_gradients(const Batch& batch) {
  const std::int64_t own = config_.batch_sequences() / ranks_.ranks();
  const std::int64_t first = ranks_.rank() * own;
  const std::int64_t micro_batch = std::gcd(config_.train.micro_batch_sequences, own);
  const double scale = 1.0 / static_cast<double>(count_targets(batch.targets));
  const PermutationDraw draw{.seed = config_.train.seed,
                             .stream = RandomStream::kTrainingPermutation,
                             .draw = static_cast<std::uint32_t>(step_)};
  model_->zero_gradients();
  BucketReady reduce;
  if (ranks_.ranks() > 1) reduce = [this](std::size_t bucket) { optimizer_->reduce(bucket); };
  for (std::int64_t begin = first; begin < first + own; begin += micro_batch) {
    const bool last = begin + micro_batch == first + own;
    const PackedTokens tokens = slicer_.slice(batch, begin, micro_batch);
    model_->queue_forward_backward(tokens, draw, scale, config_.optimizer.z_loss,
                                   {optimizer_->loss_sum(), begin > first},
                                   last ? reduce : BucketReady());
  }
  StepSums sums = optimizer_->step_sums();
  sums.losses *= scale;
  return sums;
}

StepReport Trainer::step() {
  const double waited = loader_->wait_seconds();
  const Batch& batch = loader_->next();
  StepReport report;
  report.data_wait_seconds = loader_->wait_seconds() - waited;
  report.step = step_ + 1;
  report.learning_rate = schedule_.learning_rate(report.step);
  const StepSums sums = accumulate_gradients(batch);
  report.loss = sums.losses;
  report.gradient_norm = sums.gradient_norm;
  report.culprit = sums.culprit;
  report.skipped = !std::isfinite(sums.losses) || !std::isfinite(sums.gradient_norm);
  if (report.skipped) {
    refuse_non_finite(report);
    ++skipped_;
  } else {
    optimizer_->update(report.step - skipped_, report.learning_rate, sums.gradient_norm);
  }
  step_ = report.step;
  return report;
}

void Trainer::refuse_non_finite(const StepReport& report) const {
  if (config_.train.non_finite == NonFinitePolicy::Skip) return;
  fail(ErrorKind::Data,
       "step {}: the loss is {} and the gradient's norm {}{}; the weights were not updated. Lower "
       "optimizer.learning_rate, or set train.non_finite=skip to leave such steps out",
       report.step, report.loss, report.gradient_norm,
       report.culprit.empty() ? "" : fmt::format(" (first in {})", report.culprit));
}

double Trainer::validate() {
  return validation_->mean_loss(*model_, ranks_);
}

CheckpointState Trainer::state() const {
  CheckpointState state;
  state.version = FLYWHEEL_VERSION;
  state.step = step_;
  state.tokens = step_ * config_.train.global_batch_tokens;
  state.data_windows = loader_->position().windows;
  state.skipped_steps = skipped_;
  state.data_fingerprint = checksum_text(data().fingerprint);
  state.data_tokens = data().tokens;
  state.tokenizer_fingerprint = checksum_text(tokenizer_->fingerprint());
  state.config = config_;
  return state;
}

void Trainer::write_files(const std::filesystem::path& folder, const OptimizerState& optimizer) {
  write_tensors(folder / kModelFile, values_of(*model_), backend_);
  write_tensors(folder / kOptimizerFile, optimizer.tensors, backend_);
  write_model_config(folder / "config.json", config_.model, *tokenizer_);
  tokenizer_->save(folder);
}

}  // namespace flywheel
