#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eval/request.h"
#include "eval/tasks/task.h"

namespace flywheel {

// The requests of every document: description, `shots` examples, question | delimiter, choice.
// Rolling and Recall: the text | nothing. Examples are drawn from `pool` for one document after
// another from Random(1234), so those of a document depend on the ones before it. Error Config if
// the pool is too small or the task has no examples.
std::vector<std::vector<TextRequest>> make_prompts(const Task& task, std::span<const Item> items,
                                                   std::span<const Item> pool, std::int64_t shots);

}  // namespace flywheel
