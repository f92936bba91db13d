#include "eval/sweep_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "eval/statistics.h"

namespace flywheel {
namespace {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string with_error(double value, const std::optional<double>& error, int decimals) {
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  return error ? fmt::format("{} ± {:.{}f}", text, *error, decimals) : text;
}

std::string percent(double value, const std::optional<double>& error) {
  return with_error(100 * value, error ? std::optional(100 * *error) : error, 1);
}

std::string markdown_row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string shown(const SweepMetric& metric) {
  return higher_is_better(metric.name) ? percent(metric.value, metric.error)
                                       : with_error(metric.value, metric.error, 2);
}

std::string column_title(const SweepTable& table, const std::string& column) {
  for (const SweepCell& cell : table.cells) {
    if (cell.task == column) return column + " " + headline(cell).name;
  }
  return column;
}

std::string options_line(const SweepOptions& options) {
  std::string text = fmt::format(
      "{} ({}); {} documents a task at most, {} examples before a question, {} tokens at once",
      options.model, options.weights, options.limit ? fmt::format("{}", *options.limit) : "all",
      options.shots, options.max_length);
  if (options.draws > 1) text += fmt::format(", {} draws of random patterns", options.draws);
  return text + ". Accuracies in percent ± standard error.\n";
}

}  // namespace

const SweepMetric& headline(const SweepCell& cell) {
  for (const char* name : {"acc_norm", "acc"}) {
    for (const SweepMetric& metric : cell.metrics) {
      if (metric.name == name) return metric;
    }
  }
  return cell.metrics.at(0);
}

std::optional<SweepMean> mean_of_columns(const SweepTable& table, const SweepSetting& setting,
                                         const std::vector<std::string>& columns) {
  SweepMean mean;
  double squares = 0;
  double count = 0;
  for (const std::string& column : columns) {
    const SweepCell* cell = table.find(setting, column);
    if (cell == nullptr) return {};
    const SweepMetric& metric = headline(*cell);
    if (!higher_is_better(metric.name)) continue;
    mean.accuracy += metric.value;
    mean.visible_keys += cell->mean_visible_keys;
    squares += metric.error.value_or(0) * metric.error.value_or(0);
    ++count;
  }
  if (count == 0) return {};
  return SweepMean{mean.accuracy / count, std::sqrt(squares) / count, mean.visible_keys / count};
}

std::string sweep_csv(const SweepTable& table) {
  std::string text =
      "pattern,window,task,metric,value,stderr,draws,deviation,documents,mean_visible_keys,"
      "seconds,attention\n";
  for (const SweepCell& cell : table.cells) {
    for (const SweepMetric& metric : cell.metrics) {
      const bool drawn = metric.draws.size() > 1;
      text += fmt::format(
          "{},{},{},{},{:.6g},{},{},{},{},{:.2f},{:.1f},{}\n", cell.pattern, cell.window, cell.task,
          metric.name, metric.value, metric.error ? fmt::format("{:.6g}", *metric.error) : "",
          metric.draws.size(), drawn ? fmt::format("{:.6g}", sample_deviation(metric.draws)) : "",
          cell.documents, cell.mean_visible_keys, cell.seconds, csv_field(cell.attention));
    }
  }
  return text;
}

std::string sweep_markdown(const SweepTable& table, const std::vector<SweepSetting>& settings,
                           const std::vector<std::string>& columns) {
  std::vector<std::string> header{"pattern", "window", "visible keys"};
  for (const std::string& column : columns) header.push_back(column_title(table, column));
  header.emplace_back("mean");
  std::string text = options_line(table.options) + "\n" + markdown_row(header) + "|---|";
  for (std::size_t i = 1; i < header.size(); ++i) text += "---:|";
  text += "\n";
  for (const SweepSetting& setting : settings) {
    const auto mean = mean_of_columns(table, setting, columns);
    std::vector<std::string> row{setting.pattern,
                                 setting.window == 0 ? "-" : std::to_string(setting.window),
                                 mean ? fmt::format("{:.1f}", mean->visible_keys) : "-"};
    for (const std::string& column : columns) {
      const SweepCell* cell = table.find(setting, column);
      row.push_back(cell == nullptr ? "-" : shown(headline(*cell)));
    }
    row.push_back(mean ? percent(mean->accuracy, mean->error) : "-");
    text += markdown_row(row);
  }
  return text;
}

}  // namespace flywheel
