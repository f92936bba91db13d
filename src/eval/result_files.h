#pragma once

#include <filesystem>
#include <string>

#include "eval/results_json.h"

namespace flywheel {

// Every run of characters that a file's name should not have becomes "__".
std::string sanitized_model_name(const std::string& name);

// Where results go: results_DATE.json and samples_TASK_DATE.jsonl below `output`, in a folder named
// after the model; if `output` ends in .json, beside it, as NAME_DATE.json.
struct ResultPaths {
  std::filesystem::path folder;
  std::filesystem::path results;
  std::string date;
  std::filesystem::path samples(const std::string& task) const;
};
ResultPaths result_paths(const std::filesystem::path& output, const std::string& model_name,
                         const std::string& date);

// Makes the folder that write_results() needs: before the work, which would be lost without it.
// Error Io.
void prepare_results(const std::filesystem::path& output, const std::string& model_name);

// Writes the results, dated now, and on request the samples. Error Io.
ResultPaths write_results(const EvaluationResults& results, const EvaluationRecord& record,
                          const std::filesystem::path& output, bool samples);

}  // namespace flywheel
