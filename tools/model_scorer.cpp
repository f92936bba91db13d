#include "tools/model_scorer.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/log.h"
#include "cpu/cpu_backend.h"
#include "eval/prefix_token.h"
#include "tools/evaluate_programs.h"

namespace flywheel {
namespace {

std::int32_t prefix_of(const OpenedModel& opened) {
  return std::filesystem::is_directory(opened.path) ? prefix_token(opened.path, *opened.tokenizer)
                                                    : opened.special.begin;
}

}  // namespace

ModelConfig scored_config(const ModelConfig& config, const AttentionOverride& attention) {
  ModelConfig result = with_attention(config, attention);
  result.attention.per_sequence = false;
  return result;
}

ModelScorer::ModelScorer(const std::string& path, const ScoringOptions& options)
    : opened_(open_model(path)),
      options_(options),
      max_length_(options.max_length == 0 ? opened_.config.max_positions : options.max_length),
      prefix_token_(prefix_of(opened_)),
      weights_(weights_type(opened_.weights, opened_.config, options.weights)),
      encoder_(*opened_.tokenizer, {.prefix_token = prefix_token_,
                                    .add_prefix = options.add_prefix,
                                    .max_length = max_length_}),
      backend_(make_cpu_backend(options.threads)) {
  require(max_length_ <= opened_.config.max_positions, ErrorKind::Config,
          "--max_length {}: the model has {} positions", max_length_, opened_.config.max_positions);
}

void ModelScorer::use(const ModelConfig& config, bool writes) {
  scorer_.reset();
  model_.reset();  // before the next one takes memory
  limits_ = {.max_tokens = std::max(max_length_, options_.batch_tokens),
             .max_sequences = 512,
             .training = false};
  limits_.weights = weights_;
  if (is_prefix_consistent(config)) limits_.max_attention_rows = 2 * options_.batch_tokens;
  if (writes) {
    limits_.cache_slots = kProgramsTogether;
    limits_.cache_length = max_length_;
  }
  model_ = load_transformer(opened_.weights, config, *backend_, limits_);
  scorer_ = std::make_unique<Scorer>(*model_, limits_, options_.seed);
}

void ModelScorer::evaluate(TaskResult& task, const EvaluationOptions& options,
                           const EvaluationProgress& progress) {
  if (task.task.kind == TaskKind::Program) {
    write_programs(task, *model_, limits_, opened_, encoder_, options_.seed, progress);
    return;
  }
  evaluate_task(task, *model_, *scorer_, encoder_, options, progress);
  if (task.cut_requests == 0) return;
  log::warning("{}: {} requests were longer than {} tokens and lost their beginning",
               task.task.name, task.cut_requests, max_length_);
}

}  // namespace flywheel
