#include "eval/result_files.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>

#include "core/file_io.h"

namespace flywheel {

std::string sanitized_model_name(const std::string& name) {
  constexpr std::string_view kForbidden = "\"<>:/|\\?*[]";
  std::string result;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t end = std::min(name.find_first_not_of(kForbidden, i), name.size());
    result += end > i ? "__" : std::string(1, name[i]);
    i = std::max(end, i + 1);
  }
  return result;
}

std::filesystem::path ResultPaths::samples(const std::string& task) const {
  return folder / ("samples_" + task + "_" + date + ".jsonl");
}

ResultPaths result_paths(const std::filesystem::path& output, const std::string& model_name,
                         const std::string& date) {
  if (output.extension() == ".json") {
    const auto folder = output.has_parent_path() ? output.parent_path() : ".";
    return {folder, folder / (output.stem().string() + "_" + date + ".json"), date};
  }
  const auto folder = output / sanitized_model_name(model_name);
  return {folder, folder / ("results_" + date + ".json"), date};
}

void prepare_results(const std::filesystem::path& output, const std::string& model_name) {
  create_folders(result_paths(output, model_name, "").folder);
}

ResultPaths write_results(const EvaluationResults& results, const EvaluationRecord& record,
                          const std::filesystem::path& output, bool samples) {
  const auto now = std::chrono::system_clock::now();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  const std::string date = fmt::format("{:%Y-%m-%dT%H-%M-%S}.{:06}",
                                       fmt::localtime(std::chrono::system_clock::to_time_t(now)),
                                       micros.count() % 1'000'000);
  const ResultPaths paths = result_paths(output, record.model_name, date);
  write_file_atomically(paths.results,
                        results_json(results, record, static_cast<double>(micros.count()) / 1e6));
  if (!samples) return paths;
  for (const TaskResult& task : results.tasks) {
    write_file_atomically(paths.samples(task.task.name), samples_jsonl(task));
  }
  return paths;
}

}  // namespace flywheel
