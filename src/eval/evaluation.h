#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "eval/encoding.h"
#include "eval/metrics.h"
#include "eval/scorer.h"
#include "eval/tasks/registry.h"

namespace flywheel {

struct EvaluationOptions {
  std::filesystem::path data;   // folder of the data sets
  std::filesystem::path text;   // the file of tasks that have none of their own
  std::optional<double> limit;  // >= 1: so many documents; below: that part of them
  std::int64_t shots = 0;       // few-shot examples
  std::int64_t stride = 0;      // perplexity: new tokens a window; 0 = all
  std::int64_t draws = 1;       // sa: evaluations, each with permutations of its own
  std::int64_t bootstrap_iterations = 100'000;
  bool allow_programs = false;  // that a model wrote may be run
};

// One document, ready to be scored, and its scores in the first draw.
struct EvaluatedDocument {
  Item item;
  std::vector<TextRequest> requests;
  DocumentScore score;
};

// What a Program task runs: prompt, output, test.
std::string program_of(const EvaluatedDocument& document);

struct MetricResult {
  std::string name;
  double value = 0;             // mean over the draws
  std::optional<double> error;  // likewise
  std::vector<double> draws;    // the value in each of them
};

struct TaskResult {
  Task task;
  std::filesystem::path file;
  std::string file_hash;  // SHA-256
  std::int64_t documents_in_file = 0;
  std::int64_t shots = 0;
  std::vector<EvaluatedDocument> documents;
  std::vector<MetricResult> metrics;
  std::int64_t scored_tokens = 0;
  std::int64_t cut_requests = 0;  // that lost tokens at the left
  double mean_visible_keys = 0;
};

struct GroupResult {
  TaskGroup group;
  std::int64_t documents = 0;
  std::vector<MetricResult> metrics;
};

// A task's documents with their prompts, up to the limit; no model is needed. Error Data says which
// file is missing and where it comes from.
TaskResult prepare_task(const Task& task, const EvaluationOptions& options);

// Every request of a document as tokens; a Rolling one gives several. Error Data names task and
// document.
std::vector<std::vector<TokenRequest>> encode_task(const TaskResult& task,
                                                   const RequestEncoder& encoder,
                                                   std::int64_t stride);

// Scores it and fills in the rest.
void evaluate_task(TaskResult& task, Transformer& model, Scorer& scorer,
                   const RequestEncoder& encoder, const EvaluationOptions& options,
                   const EvaluationProgress& progress);

// The groups all of whose tasks are among these.
std::vector<GroupResult> combine_groups(const TaskRegistry& registry,
                                        const std::vector<TaskResult>& tasks);

}  // namespace flywheel
