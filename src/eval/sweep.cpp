#include "eval/sweep.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"
#include "core/sha256.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    parts.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_group(const TaskRegistry& registry, const std::string& name,
              const std::vector<Task>& tasks) {
  const std::vector<TaskGroup> groups = registry.groups_of(tasks);
  return std::any_of(groups.begin(), groups.end(),
                     [&](const TaskGroup& group) { return group.name == name; });
}

Json read_json(const fs::path& file) {
  try {
    return parse_json(read_text_file(file), file.string());
  } catch (const Error& error) {
    fail(ErrorKind::Data, "{}; remove it to start anew", error.what());
  }
}

SweepTable read_sweep(const fs::path& file) {
  SweepTable table;
  ConfigFaults faults(file.string());
  read_fields(table, read_json(file), faults);
  require(faults.empty(), ErrorKind::Data, "{}; remove it to start anew",
          faults.empty() ? "" : faults.lines().front());
  return table;
}

void require_same(const fs::path& file, const SweepOptions& before, const SweepOptions& now) {
  const Json old_options = write_fields(before);
  const Json options = write_fields(now);
  for (const auto& [name, value] : options.items()) {
    require(old_options.at(name) == value, ErrorKind::Config,
            "{} was made with {} {}, not {}: give the same options or another --output",
            file.string(), name, old_options.at(name).dump(), value.dump());
  }
}

}  // namespace

std::vector<SweepSetting> sweep_settings(const std::vector<std::string>& patterns,
                                         const std::vector<std::int64_t>& windows) {
  std::vector<SweepSetting> settings;
  const auto add = [&](const SweepSetting& setting) {
    const bool known = std::find(settings.begin(), settings.end(), setting) != settings.end();
    if (!known) settings.push_back(setting);
  };
  for (const std::string& pattern : patterns) {
    if (pattern == "full") {
      add({pattern, 0});
      continue;
    }
    require(!windows.empty(), ErrorKind::Config, "--patterns {}: name its --windows", pattern);
    for (const std::int64_t window : windows) {
      require(window >= 1, ErrorKind::Config, "--windows {}: expected 1 or more", window);
      add({pattern, window});
    }
  }
  require(!settings.empty(), ErrorKind::Config, "--patterns names no pattern");
  return settings;
}

std::int64_t SweepColumn::documents() const {
  std::int64_t count = 0;
  for (const TaskResult& task : tasks) count += std::ssize(task.documents);
  return count;
}

std::int64_t SweepColumn::bytes() const {
  std::int64_t count = 0;
  for (const TaskResult& task : tasks) {
    for (const EvaluatedDocument& document : task.documents) {
      for (const TextRequest& request : document.requests) {
        count += std::ssize(request.context) + std::ssize(request.continuation);
      }
    }
  }
  return count;
}

std::string SweepColumn::data_hash() const {
  std::string hashes;
  for (const TaskResult& task : tasks) hashes += task.file_hash;
  return tasks.size() == 1 ? hashes : sha256(hashes);
}

std::vector<SweepColumn> sweep_columns(const TaskRegistry& registry, const std::string& names,
                                       const EvaluationOptions& options) {
  std::vector<SweepColumn> columns;
  const auto add = [&](const std::string& name, const std::vector<Task>& tasks) {
    for (const SweepColumn& column : columns) {
      if (column.name == name) return;
    }
    columns.push_back({name, {}});
    EvaluationOptions own = options;
    if (own.limit && *own.limit >= 1) {
      own.limit = std::ceil(*own.limit / static_cast<double>(tasks.size()));
    }
    for (const Task& task : tasks) columns.back().tasks.push_back(prepare_task(task, own));
  };
  for (const std::string& name : split(names)) {
    const std::vector<Task> tasks = registry.select(name);
    if (is_group(registry, name, tasks)) {
      add(name, tasks);
    } else {
      for (const Task& task : tasks) add(task.name, {task});
    }
  }
  return columns;
}

const SweepCell* SweepTable::find(const SweepSetting& setting, const std::string& task) const {
  for (const SweepCell& cell : cells) {
    if (cell.pattern == setting.pattern && cell.window == setting.window && cell.task == task) {
      return &cell;
    }
  }
  return nullptr;
}

SweepCell make_cell(const TaskRegistry& registry, const SweepSetting& setting,
                    const SweepColumn& column) {
  SweepCell cell{.pattern = setting.pattern,
                 .window = setting.window,
                 .task = column.name,
                 .documents = column.documents(),
                 .data_hash = column.data_hash()};
  std::vector<MetricResult> metrics = column.tasks.front().metrics;
  for (const GroupResult& group : combine_groups(registry, column.tasks)) {
    if (group.group.name == column.name) metrics = group.metrics;
  }
  for (const MetricResult& metric : metrics) {
    cell.metrics.push_back({metric.name, metric.value, metric.error, metric.draws});
  }
  for (const TaskResult& task : column.tasks) {
    cell.mean_visible_keys += task.mean_visible_keys * static_cast<double>(task.documents.size()) /
                              static_cast<double>(cell.documents);
  }
  return cell;
}

SweepTable resume_sweep(const fs::path& file, const SweepOptions& options,
                        const std::vector<SweepColumn>& columns) {
  if (!fs::exists(file)) return {options, {}};
  SweepTable table = read_sweep(file);
  require_same(file, table.options, options);
  for (const SweepCell& cell : table.cells) {
    require(!cell.metrics.empty(), ErrorKind::Data, "{}: a cell of {} has no metrics; remove it",
            file.string(), cell.task);
    for (const SweepColumn& column : columns) {
      require(cell.task != column.name || cell.data_hash == column.data_hash(), ErrorKind::Config,
              "{}: the data of {} have changed since: take the old ones or another --output",
              file.string(), cell.task);
    }
  }
  return table;
}

std::string sweep_json(const SweepTable& table) {
  return write_fields(table).dump(2) + "\n";
}

}  // namespace flywheel
