#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/sweep.h"

namespace flywheel {

// The metric that stands for a cell: acc_norm, else acc, else its first one.
const SweepMetric& headline(const SweepCell& cell);

// A setting's score over all columns.
struct SweepMean {
  double accuracy = 0;
  double error = 0;
  double visible_keys = 0;
};
// The mean over the columns that have an accuracy; nothing if none has or a cell is missing.
std::optional<SweepMean> mean_of_columns(const SweepTable& table, const SweepSetting& setting,
                                         const std::vector<std::string>& columns);

// A line for each cell and metric.
std::string sweep_csv(const SweepTable& table);

// A row for each setting, a column for each task: headlines, accuracies in percent, with their
// standard errors. Cells that are missing show as "-".
std::string sweep_markdown(const SweepTable& table, const std::vector<SweepSetting>& settings,
                           const std::vector<std::string>& columns);

}  // namespace flywheel
