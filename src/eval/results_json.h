#pragma once

#include <cstdint>
#include <string>

#include "eval/evaluation.h"
#include "eval/results_table.h"
#include "model/attention_override.h"

namespace flywheel {

// What a results file says besides the scores.
struct EvaluationRecord {
  EvaluationOptions options;
  AttentionOverride attention;
  std::string model_name;  // as the user named it
  std::int64_t model_parameters = 0;
  DType weights = DType::F32;  // how they were kept
  std::int64_t max_length = 0;
  std::int64_t batch_tokens = 0;
  std::uint64_t seed = 0;
  std::string attention_text;  // describe_attention()
  std::int32_t prefix_token = -1;
  bool add_prefix = false;
  std::uint64_t tokenizer_fingerprint = 0;
  double seconds = 0;
};

// The results file of lm-evaluation-harness, with a section "flywheel" of our own.
std::string results_json(const EvaluationResults& results, const EvaluationRecord& record,
                         double unix_time);

// A line a document, as `--log_samples` writes it.
std::string samples_jsonl(const TaskResult& task);

}  // namespace flywheel
