#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "eval/evaluation.h"
#include "infer/load_model.h"
#include "model/attention_override.h"

namespace flywheel {

// How texts become passes of a model.
struct ScoringOptions {
  std::int64_t max_length = 0;  // tokens read at once; 0: the model's positions
  std::int64_t batch_tokens = 4096;
  std::string weights = "file";  // weights_type()
  std::uint64_t seed = 0;
  bool add_prefix = false;
  int threads = 0;
};

// A model's files and, after use(), a model of one attention that scores tasks.
class ModelScorer {
 public:
  // Opens the files. Error Config: max_length is above the model's positions, or no such weights.
  ModelScorer(const std::string& path, const ScoringOptions& options);

  const OpenedModel& opened() const { return opened_; }
  std::int64_t max_length() const { return max_length_; }
  std::int32_t prefix_token() const { return prefix_token_; }
  DType weights() const { return weights_; }  // how they are kept

  // Builds the model for `config`; `writes` if a task has it write programs.
  void use(const ModelConfig& config, bool writes);
  // Fills in a prepared task. Warns of requests that were too long.
  void evaluate(TaskResult& task, const EvaluationOptions& options,
                const EvaluationProgress& progress);

 private:
  OpenedModel opened_;
  ScoringOptions options_;
  std::int64_t max_length_;
  std::int32_t prefix_token_;
  DType weights_;
  RequestEncoder encoder_;
  std::unique_ptr<Backend> backend_;
  TransformerLimits limits_;
  std::unique_ptr<Transformer> model_;
  std::unique_ptr<Scorer> scorer_;
};

// The model's config under another attention, as it is scored: a score depends on its own text
// alone, so that no sequence has permutations of its own.
ModelConfig scored_config(const ModelConfig& config, const AttentionOverride& attention);

}  // namespace flywheel
