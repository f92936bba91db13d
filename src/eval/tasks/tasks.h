#pragma once

#include "eval/tasks/task.h"

namespace flywheel {

// One function a file of this folder; registry.h lists them all by name.
Task wikitext_task();
Task lambada_openai_task();
Task lambada_standard_task();
Task perplexity_task();
Task recall_task();
Task piqa_task();
Task hellaswag_task();
Task winogrande_task();
Task arc_easy_task();
Task arc_challenge_task();
Task openbookqa_task();
Task sciq_task();
Task boolq_task();
Task copa_task();
Task humaneval_task();
std::vector<Task> mmlu_tasks();
std::vector<TaskGroup> mmlu_groups();

}  // namespace flywheel
