#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace flywheel {

// A line of metrics.jsonl of kind "train" or "validation"; NaN where it has no such number.
struct MetricPoint {
  std::int64_t step = 0;
  double tokens = 0;
  double hours = 0;  // of training: pauses and validation are not counted
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double tokens_per_second = 0;
  double mfu = 0;
};

struct TextSample {
  std::int64_t step = 0;
  std::string prompt;
  std::string text;
};

// One task of an evaluation's results file.
struct EvaluationEntry {
  std::string file;       // its name
  std::string attention;  // what ran
  std::string task;
  std::map<std::string, double> metrics;  // "acc", "word_perplexity", ...
  double mean_visible_keys = 0;           // 0: not recorded
};

// What a run's folder holds.
struct RunRecord {
  std::string name;
  std::filesystem::path folder;
  RunConfig config;
  std::vector<std::pair<std::string, std::string>> values;  // of the config, "model.layers": "4"
  std::vector<MetricPoint> train;
  std::vector<MetricPoint> validation;
  std::vector<TextSample> samples;
  std::vector<EvaluationEntry> evaluations;
};

// Error Data if the folder is not a run's, or names the file and line that cannot be read. A last
// line without an end, as a killed run leaves it, is left out.
RunRecord read_run(const std::filesystem::path& folder);

// Names the runs by what tells their folders apart: {"runs/a/train", "runs/b/train"} become "a" and
// "b".
void shorten_names(std::vector<RunRecord>& runs);

// Results files of `evaluate` (results_*.json) at `path` or below it. Error Data names a file that
// is none.
std::vector<EvaluationEntry> read_evaluations(const std::filesystem::path& path);

}  // namespace flywheel
