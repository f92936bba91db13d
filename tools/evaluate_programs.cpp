#include "tools/evaluate_programs.h"

#include <algorithm>

#include "eval/program_task.h"
#include "infer/continue_texts.h"

namespace flywheel {

bool writes_programs(const std::vector<TaskResult>& tasks) {
  return std::any_of(tasks.begin(), tasks.end(),
                     [](const TaskResult& task) { return task.task.kind == TaskKind::Program; });
}

void write_programs(TaskResult& task, Transformer& model, const TransformerLimits& limits,
                    const OpenedModel& opened, const RequestEncoder& encoder, std::uint64_t seed,
                    const EvaluationProgress& progress) {
  const auto writer = [&](std::span<const std::vector<std::int32_t>> prompts,
                          const Writing& writing) {
    std::int64_t done = 0;
    const GenerateOptions options{.sampling = {.temperature = 0, .seed = seed},
                                  .tokens = writing.max_tokens,
                                  .stop_tokens = opened.special.end};
    return write_until(
        model, limits, *opened.tokenizer, prompts, writing.until, options,
        [&](std::size_t, const Continuation&) { progress(++done, std::ssize(prompts)); });
  };
  evaluate_program_task(task, model.config(), encoder, writer);
}

}  // namespace flywheel
