#pragma once

#include <cstdint>
#include <vector>

#include "eval/evaluation.h"
#include "infer/load_model.h"

namespace flywheel {

constexpr std::int64_t kProgramsTogether = 8;  // that the model writes at a time

bool writes_programs(const std::vector<TaskResult>& tasks);

// A Program task with a model that has a key-value cache; the patterns run over the prompts, and
// new tokens see all keys. Progress counts programs.
void write_programs(TaskResult& task, Transformer& model, const TransformerLimits& limits,
                    const OpenedModel& opened, const RequestEncoder& encoder, std::uint64_t seed,
                    const EvaluationProgress& progress);

}  // namespace flywheel
