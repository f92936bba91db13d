#include "report/run_record.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

double number(const Json& line, const char* key) {
  const auto value = line.find(key);
  if (value == line.end() || !value->is_number()) return std::numeric_limits<double>::quiet_NaN();
  return value->get<double>();
}

std::string text(const Json& line, const char* key) {
  const auto value = line.find(key);
  return value != line.end() && value->is_string() ? value->get<std::string>() : "";
}

MetricPoint point_of(const Json& line) {
  return {.step = line.at("step").get<std::int64_t>(),
          .tokens = number(line, "tokens"),
          .loss = number(line, "loss"),
          .learning_rate = number(line, "learning_rate"),
          .gradient_norm = number(line, "gradient_norm"),
          .tokens_per_second = number(line, "tokens_per_second"),
          .mfu = number(line, "mfu")};
}

void add_line(RunRecord& run, const Json& line) {
  const std::string kind = text(line, "kind");
  if (kind == "train") run.train.push_back(point_of(line));
  if (kind == "validation") run.validation.push_back(point_of(line));
  if (kind == "sample") {
    run.samples.push_back(
        {line.at("step").get<std::int64_t>(), text(line, "prompt"), text(line, "text")});
  }
}

void read_metrics(RunRecord& run, const fs::path& file) {
  const std::string all = read_text_file(file);
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = all.find('\n', begin);
    if (end == std::string::npos) return;
    ++number;
    const Json line = Json::parse(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                  all.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    const bool whole =
        line.is_object() && line.contains("step") && line["step"].is_number_integer();
    require(whole, ErrorKind::Data, "{}: line {} is no metrics", file.string(), number);
    add_line(run, line);
    begin = end + 1;
  }
}

// Hours from the rate of each interval; a validation stands at the hours and tokens of its step.
void add_hours(RunRecord& run) {
  double hours = 0;
  double tokens = 0;
  for (MetricPoint& point : run.train) {
    const double seconds = (point.tokens - tokens) / point.tokens_per_second;
    if (std::isfinite(seconds)) hours += seconds / 3600;
    tokens = point.tokens;
    point.hours = hours;
  }
  for (MetricPoint& point : run.validation) {
    const auto after = std::lower_bound(
        run.train.begin(), run.train.end(), point.step,
        [](const MetricPoint& train, std::int64_t step) { return train.step < step; });
    point.tokens = static_cast<double>(point.step * run.config.train.global_batch_tokens);
    point.hours = after == run.train.end() ? hours : after->hours;
  }
}

void flatten(const Json& json, const std::string& name,
             std::vector<std::pair<std::string, std::string>>& values) {
  if (!json.is_object()) {
    values.emplace_back(name, json.dump());
    return;
  }
  for (const auto& [key, value] : json.items()) {
    flatten(value, name.empty() ? key : name + "." + key, values);
  }
}

bool is_results_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("results_") && name.ends_with(".json");
}

void add_results(std::vector<EvaluationEntry>& entries, const fs::path& file) {
  const Json json = read_json_file(file);
  require(json.is_object() && json.contains("results") && json["results"].is_object(),
          ErrorKind::Data, "{}: no results of evaluate", file.string());
  const Json own = json.value("flywheel", Json::object());
  for (const auto& [task, scores] : json["results"].items()) {
    EvaluationEntry entry{.file = file.filename().string(),
                          .attention = own.value("attention", ""),
                          .task = task,
                          .metrics = {}};
    for (const auto& [key, value] : scores.items()) {
      const std::size_t comma = key.find(',');
      const std::string metric = key.substr(0, comma);
      if (comma == std::string::npos || !value.is_number() || metric.ends_with("_stderr")) continue;
      entry.metrics[metric] = value.get<double>();
    }
    if (own.contains("tasks") && own["tasks"].contains(task)) {
      entry.mean_visible_keys = own["tasks"][task].value("mean_visible_keys", 0.0);
    }
    entries.push_back(std::move(entry));
  }
}

}  // namespace

std::vector<EvaluationEntry> read_evaluations(const fs::path& path) {
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file() && is_results_file(entry.path())) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  std::vector<EvaluationEntry> entries;
  for (const fs::path& file : files) add_results(entries, file);
  return entries;
}

void shorten_names(std::vector<RunRecord>& runs) {
  std::vector<std::vector<std::string>> parts;
  for (const RunRecord& run : runs) {
    std::vector<std::string>& folders = parts.emplace_back();
    for (const fs::path& part : fs::absolute(run.folder).lexically_normal()) {
      if (!part.empty()) folders.push_back(part.string());
    }
  }
  const auto all_share = [&](const auto& part_of) {
    return std::all_of(parts.begin(), parts.end(), [&](const std::vector<std::string>& folders) {
      return folders.size() > 1 && part_of(folders) == part_of(parts[0]);
    });
  };
  if (runs.size() < 2) return;
  while (all_share([](const auto& folders) { return folders.front(); })) {
    for (auto& folders : parts) folders.erase(folders.begin());
  }
  while (all_share([](const auto& folders) { return folders.back(); })) {
    for (auto& folders : parts) folders.pop_back();
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].name = fmt::format("{}", fmt::join(parts[i], "/"));
  }
}

RunRecord read_run(const fs::path& folder) {
  for (const char* name : {"config.json", "metrics.jsonl"}) {
    require(fs::exists(folder / name), ErrorKind::Data,
            "{}: no {} in it; name the folder of a run (checkpoint.folder of its config)",
            folder.string(), name);
  }
  RunRecord run{.name = folder.string(),
                .folder = folder,
                .config = load_run_config(folder / "config.json", {}),
                .values = {},
                .train = {},
                .validation = {},
                .samples = {},
                .evaluations = read_evaluations(folder)};
  flatten(Json::parse(run_config_to_json(run.config)), "", run.values);
  read_metrics(run, folder / "metrics.jsonl");
  require(!run.train.empty(), ErrorKind::Data, "{}: no step was logged yet",
          (folder / "metrics.jsonl").string());
  add_hours(run);
  return run;
}

}  // namespace flywheel
