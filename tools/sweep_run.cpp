#include "tools/sweep_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/file_io.h"
#include "eval/sweep_figure.h"
#include "eval/sweep_tables.h"
#include "tools/evaluate_programs.h"

namespace flywheel {
namespace {

std::string name_of(const SweepSetting& setting) {
  return setting.window == 0 ? setting.pattern
                             : fmt::format("{} window {}", setting.pattern, setting.window);
}

std::string minutes(double seconds) {
  return seconds < 90 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

AttentionOverride override_of(const SweepSetting& setting, AttentionOverride shared) {
  shared.pattern = setting.pattern;
  if (setting.window > 0) shared.window = setting.window;
  return shared;
}

}  // namespace

SweepRun::SweepRun(std::filesystem::path output, const SweepOptions& options,
                   std::vector<SweepSetting> settings, std::vector<SweepColumn> columns,
                   const ModelConfig& config)
    : output_(std::move(output)), settings_(std::move(settings)), columns_(std::move(columns)) {
  for (const SweepSetting& setting : settings_) {
    configs_.push_back(scored_config(config, override_of(setting, options.attention)));
  }
  for (const SweepColumn& column : columns_) names_.push_back(column.name);
  create_folders(output_);
  table_ = resume_sweep(output_ / "sweep.json", options, columns_);
  for (const Cell& cell : missing_cells()) work_ += work(cell);
}

std::vector<SweepRun::Cell> SweepRun::missing_cells() const {
  std::vector<Cell> cells;
  for (std::size_t s = 0; s < settings_.size(); ++s) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (table_.find(settings_[s], names_[c]) == nullptr) cells.push_back({s, c});
    }
  }
  return cells;
}

// Only random patterns have more than one.
std::int64_t SweepRun::draws(const Cell& cell) const {
  return settings_[cell.setting].pattern.starts_with("sa") ? table_.options.draws : 1;
}

// Bytes to read: close enough to the time.
double SweepRun::work(const Cell& cell) const {
  return static_cast<double>(columns_[cell.column].bytes() * draws(cell));
}

void SweepRun::fill(ModelScorer& scorer, const TaskRegistry& registry,
                    const EvaluationOptions& options) {
  const bool writes = std::any_of(columns_.begin(), columns_.end(), [](const SweepColumn& column) {
    return writes_programs(column.tasks);
  });
  std::size_t in_use = settings_.size();
  for (const Cell& cell : missing_cells()) {
    if (cell.setting != in_use) scorer.use(configs_[cell.setting], writes);
    in_use = cell.setting;
    evaluate(cell, scorer, registry, options);
    write();
  }
}

void SweepRun::evaluate(const Cell& cell, ModelScorer& scorer, const TaskRegistry& registry,
                        EvaluationOptions options) {
  const ProgressLine cell_clock;
  ProgressLine line;
  options.draws = draws(cell);
  SweepColumn column = columns_[cell.column];
  const double passes =
      static_cast<double>(column.tasks.size()) * static_cast<double>(options.draws);
  double passed = 0;
  for (TaskResult& task : column.tasks) {
    scorer.evaluate(task, options, [&](std::int64_t done, std::int64_t total) {
      const double part =
          static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(total, 1));
      line.show([&] { return progress(cell, (passed + part) / passes); });
      if (done == total) ++passed;
    });
  }
  line.clear();
  SweepCell result = make_cell(registry, settings_[cell.setting], column);
  result.attention = describe_attention(configs_[cell.setting]);
  result.seconds = cell_clock.seconds();
  done_ += work(cell);
  fmt::print(stderr, "{}; {} {:.4f}, {:.1f} visible keys, {}\n", progress(cell, 0),
             headline(result).name, headline(result).value, result.mean_visible_keys,
             minutes(result.seconds));
  table_.cells.push_back(std::move(result));
}

std::string SweepRun::progress(const Cell& cell, double share_of_cell) const {
  const double share = (done_ + share_of_cell * work(cell)) / work_;
  const double left = clock_.seconds() * (1 - share) / std::max(share, 1e-9);
  return fmt::format("{}, {}: {:.1f}% of the sweep, {} left", name_of(settings_[cell.setting]),
                     names_[cell.column], 100 * share, minutes(left));
}

void SweepRun::write() const {
  write_file_atomically(output_ / "sweep.json", sweep_json(table_));
  write_file_atomically(output_ / "sweep.csv", sweep_csv(table_));
  write_file_atomically(output_ / "sweep.md", table());
}

std::string SweepRun::table() const {
  return sweep_markdown(table_, settings_, names_);
}

std::string SweepRun::figure() const {
  return sweep_figure(table_, settings_, names_);
}

}  // namespace flywheel
