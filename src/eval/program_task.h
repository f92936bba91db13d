#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "eval/evaluation.h"

namespace flywheel {

// What a model writes after each of these prompts.
using Writer = std::function<std::vector<std::string>(
    std::span<const std::vector<std::int32_t>> prompts, const Writing& writing)>;

// Has the model write the documents' programs, runs each with its test and fills in the rest. A
// prompt keeps its last max_length - max_tokens tokens. Error Config if the model is too short.
void evaluate_program_task(TaskResult& task, const ModelConfig& config,
                           const RequestEncoder& encoder, const Writer& writer);

}  // namespace flywheel
