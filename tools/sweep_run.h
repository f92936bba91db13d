#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "eval/sweep.h"
#include "tools/model_scorer.h"
#include "tools/progress_line.h"

namespace flywheel {

// The cells of a sweep that are not there yet, one after the other.
class SweepRun {
 public:
  // Goes on with what `output` holds. Errors as of resume_sweep() and with_attention().
  SweepRun(std::filesystem::path output, const SweepOptions& options,
           std::vector<SweepSetting> settings, std::vector<SweepColumn> columns,
           const ModelConfig& config);

  // Writes sweep.json, sweep.csv and sweep.md after every cell; says on standard error what each
  // gave and how much time is left.
  void fill(ModelScorer& scorer, const TaskRegistry& registry, const EvaluationOptions& options);

  // The Markdown table, and the figure as an SVG.
  std::string table() const;
  std::string figure() const;

 private:
  struct Cell {
    std::size_t setting;
    std::size_t column;
  };
  std::vector<Cell> missing_cells() const;
  std::int64_t draws(const Cell& cell) const;
  double work(const Cell& cell) const;
  void evaluate(const Cell& cell, ModelScorer& scorer, const TaskRegistry& registry,
                EvaluationOptions options);
  void write() const;
  std::string progress(const Cell& cell, double share_of_cell) const;

  std::filesystem::path output_;
  std::vector<SweepSetting> settings_;
  std::vector<ModelConfig> configs_;  // of each setting
  std::vector<SweepColumn> columns_;
  std::vector<std::string> names_;  // of the columns
  SweepTable table_;
  ProgressLine clock_;
  double work_ = 0;  // of all cells that are to be filled
  double done_ = 0;
};

}  // namespace flywheel
