#include "train/validation.h"

#include <algorithm>

#include "core/log.h"
#include "train/trainer.h"

namespace flywheel {

Validation::Validation(const RunConfig& config)
    : micro_batch_(config.train.micro_batch_sequences),
      seed_(config.train.seed),
      slicer_(config.data.sequence_length, limits_of(config).max_sequences) {
  LoaderConfig loader_config = loader_config_of(config);
  loader_config.sources = {{.files = config.data.validation, .weight = 1.0}};
  loader_config.shuffle = false;
  loader_config.window_limit = config.train.validation_sequences;
  Loader loader(loader_config, 1, {});
  tokenizer_fingerprint_ = loader.summary().tokenizer_fingerprint;
  sequences_ = std::min(config.train.validation_sequences, loader.summary().windows_per_epoch);
  cu_seqlens_.push_back(0);
  for (std::int64_t i = 0; i < sequences_; ++i) {
    const Batch& window = loader.next();
    const std::int32_t offset = cu_seqlens_.back();
    inputs_.insert(inputs_.end(), window.inputs.begin(), window.inputs.end());
    targets_.insert(targets_.end(), window.targets.begin(), window.targets.end());
    positions_.insert(positions_.end(), window.positions.begin(), window.positions.end());
    for (const std::int32_t end : window.cu_seqlens.subspan(1)) cu_seqlens_.push_back(offset + end);
  }
  losses_.resize(static_cast<std::size_t>(micro_batch_ * config.data.sequence_length));
}

Batch Validation::batch() const {
  return {inputs_, targets_, positions_, cu_seqlens_, 0};
}

double Validation::mean_loss(Transformer& model, Communicator& ranks) {
  const PermutationDraw draw{
      .seed = seed_, .stream = RandomStream::kEvaluationPermutation, .draw = 0};
  double sum = 0;
  for (std::int64_t begin = 0; begin < sequences_; begin += micro_batch_) {
    if (begin / micro_batch_ % ranks.ranks() != ranks.rank()) continue;
    const std::int64_t count = std::min(micro_batch_, sequences_ - begin);
    const PackedTokens tokens = slicer_.slice(batch(), begin, count);
    sum += model.forward(tokens, draw, std::span(losses_).first(tokens.inputs.size()));
  }
  ranks.sum(std::span(&sum, 1));
  return sum / static_cast<double>(count_targets(targets_));
}

}  // namespace flywheel
