#include "eval/results_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "eval/python_text.h"
#include "eval/statistics.h"

namespace flywheel {
namespace {

using Row = std::vector<std::string>;

bool is_blank(const std::string& cell) {
  return cell.find_first_not_of(' ') == std::string::npos;
}

bool is_number(const std::string& cell) {
  double value = 0;
  const auto [end, fault] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return fault == std::errc() && end == cell.data() + cell.size();
}

// Decimals without the zeros at the end.
std::size_t decimals_of(const std::string& cell) {
  const std::size_t point = cell.find('.');
  if (point == std::string::npos) return 0;
  return cell.find_last_not_of('0') - point;
}

std::string padded(const std::string& cell, std::size_t width, bool right) {
  const auto length = static_cast<std::size_t>(python::length(cell));
  const std::string space(width - length, ' ');
  return right ? space + cell : cell + space;
}

// A Markdown table as pytablewriter lays it out: a column of numbers is on the right, with as many
// decimals as its numbers need.
class MarkdownTable {
 public:
  explicit MarkdownTable(Row header) : header_(std::move(header)) {}
  void add(Row row) { rows_.push_back(std::move(row)); }

  std::string text() {
    for (std::size_t i = 0; i < header_.size(); ++i) columns_.push_back(lay_out(i));
    std::string head = "|";
    std::string rule = "|";
    for (std::size_t i = 0; i < header_.size(); ++i) {
      const auto [width, right] = columns_[i];
      const std::size_t space = width - static_cast<std::size_t>(python::length(header_[i]));
      head += std::string(space / 2, ' ') + header_[i] + std::string(space - space / 2, ' ') + "|";
      rule += std::string(right ? width - 1 : width, '-') + (right ? ":|" : "|");
    }
    std::string result = head + "\n" + rule + "\n";
    for (const Row& row : rows_) {
      result += "|";
      for (std::size_t i = 0; i < row.size(); ++i) {
        result += padded(row[i], columns_[i].width, columns_[i].right) + "|";
      }
      result += "\n";
    }
    return result;
  }

 private:
  struct Column {
    std::size_t width;
    bool right;
  };

  // Cuts zeros that no number of the column needs. All have four decimals or none.
  Column lay_out(std::size_t index) {
    bool numeric = false;
    bool other = false;
    std::size_t decimals = 0;
    for (const Row& row : rows_) {
      if (is_blank(row[index])) continue;
      (is_number(row[index]) ? numeric : other) = true;
      decimals = std::max(decimals, decimals_of(row[index]));
    }
    const bool right = numeric && !other;
    std::size_t width = std::max<std::size_t>(3, header_[index].size());
    for (Row& row : rows_) {
      std::string& cell = row[index];
      const std::size_t point = cell.find('.');
      if (right && point != std::string::npos) {
        cell.resize(decimals == 0 ? point : point + 1 + decimals);
      }
      width = std::max(width, static_cast<std::size_t>(python::length(cell)));
    }
    return {width, right};
  }

  Row header_;
  std::vector<Row> rows_;
  std::vector<Column> columns_;
};

std::string four_decimals(double value) {
  return fmt::format("{:.4f}", value);
}

// One line a metric, by name.
void add_rows(MarkdownTable& table, const std::string& name, const std::string& version,
              const std::string& filter, const std::string& shots,
              std::vector<MetricResult> metrics) {
  std::sort(metrics.begin(), metrics.end(),
            [](const MetricResult& a, const MetricResult& b) { return a.name < b.name; });
  for (const MetricResult& metric : metrics) {
    const bool first = &metric == &metrics.front();
    const char* arrow = higher_is_better(metric.name) ? "\u2191" : "\u2193";
    table.add({first ? name : "", first ? version : "", filter, shots, metric.name, arrow,
               four_decimals(metric.value), "\u00B1",
               metric.error ? four_decimals(*metric.error) : "   N/A"});
  }
}

MarkdownTable new_table(const char* first_column) {
  return MarkdownTable(
      {first_column, "Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr"});
}

class TableBuilder {
 public:
  TableBuilder(const EvaluationResults& results, const char* first_column, bool with_tasks)
      : results_(results), with_tasks_(with_tasks), table_(new_table(first_column)) {}

  std::string text() {
    std::vector<std::string> top;
    for (const TaskResult& task : results_.tasks) top.push_back(task.task.name);
    for (const GroupResult& group : results_.groups) top.push_back(group.group.name);
    for (const GroupResult& group : results_.groups) {
      for (const std::string& member : group.group.members) std::erase(top, member);
    }
    std::sort(top.begin(), top.end());
    for (const std::string& name : top) add(name, 0);
    return table_.text();
  }

 private:
  static std::string indented(const std::string& alias, std::size_t depth) {
    return depth == 0 ? alias : std::string(depth, ' ') + "- " + alias;
  }

  void add(const std::string& name, std::size_t depth) {
    for (const TaskResult& task : results_.tasks) {
      if (task.task.name != name || !with_tasks_) continue;
      add_rows(table_, indented(depth == 0 ? name : task.task.alias, depth), task.task.version,
               task.task.filter, std::to_string(task.shots), task.metrics);
    }
    for (const GroupResult& group : results_.groups) {
      if (group.group.name != name) continue;
      add_rows(table_, indented(group.group.alias, depth), group.group.version, "none", " ",
               group.metrics);
      std::vector<std::string> members = group.group.members;
      std::sort(members.begin(), members.end());
      for (const std::string& member : members) add(member, depth + 1);
    }
  }

  const EvaluationResults& results_;
  bool with_tasks_;
  MarkdownTable table_;
};

void add_draws(MarkdownTable& table, const std::string& name,
               const std::vector<MetricResult>& metrics) {
  for (const MetricResult& metric : metrics) {
    const auto [low, high] = std::minmax_element(metric.draws.begin(), metric.draws.end());
    table.add({&metric == &metrics.front() ? name : "", metric.name,
               std::to_string(metric.draws.size()), four_decimals(metric.value),
               four_decimals(sample_deviation(metric.draws)), four_decimals(*low),
               four_decimals(*high)});
  }
}

}  // namespace

std::string results_tables(const EvaluationResults& results) {
  std::string text = TableBuilder(results, "Tasks", true).text();
  if (!results.groups.empty()) text += "\n" + TableBuilder(results, "Groups", false).text();
  return text;
}

std::string draws_table(const EvaluationResults& results) {
  MarkdownTable table({"Tasks", "Metric", "Draws", "Mean", "Deviation", "Lowest", "Highest"});
  for (const TaskResult& task : results.tasks) add_draws(table, task.task.name, task.metrics);
  for (const GroupResult& group : results.groups) {
    add_draws(table, group.group.name, group.metrics);
  }
  return table.text();
}

}  // namespace flywheel
