#pragma once

#include <string>
#include <vector>

#include "eval/evaluation.h"

namespace flywheel {

// What an evaluation found.
struct EvaluationResults {
  std::vector<TaskResult> tasks;
  std::vector<GroupResult> groups;  // outer ones before inner ones
};

// The Markdown tables that lm-evaluation-harness prints: of all tasks and groups, and of the groups
// if there are any.
std::string results_tables(const EvaluationResults& results);

// Mean and spread of every metric over the draws.
std::string draws_table(const EvaluationResults& results);

}  // namespace flywheel
