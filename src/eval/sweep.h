#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "eval/evaluation.h"
#include "model/attention_override.h"

namespace flywheel {

// A row of a sweep: a pattern and its window.
struct SweepSetting {
  std::string pattern;
  std::int64_t window = 0;  // full: 0

  bool operator==(const SweepSetting&) const = default;
};

// Every pattern with every window, full once. Error Config: a list is empty or a window below 1.
std::vector<SweepSetting> sweep_settings(const std::vector<std::string>& patterns,
                                         const std::vector<std::int64_t>& windows);

// A column of a sweep: a task, or a group that has a score of its own.
struct SweepColumn {
  std::string name;
  std::vector<TaskResult> tasks;  // prepared

  std::int64_t documents() const;
  std::int64_t bytes() const;  // of all prompts and answers: its share of the work
  std::string data_hash() const;
};

// One column for every group among the comma-separated names, one for every other task that they
// mean. A limit of N documents is one of a column: those of a group are spread over its tasks.
// Errors as of select() and prepare_task().
std::vector<SweepColumn> sweep_columns(const TaskRegistry& registry, const std::string& names,
                                       const EvaluationOptions& options);

// A metric's value in one cell.
struct SweepMetric {
  std::string name;
  double value = 0;
  std::optional<double> error;
  std::vector<double> draws;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("name", self.name, "of the metric");
    visit("value", self.value, "mean over the draws");
    visit("stderr", self.error, "its standard error");
    visit("draws", self.draws, "the value in each draw");
  }
};

// What one attention scored in one column.
struct SweepCell {
  std::string pattern;
  std::int64_t window = 0;
  std::string task;
  std::string attention;  // describe_attention()
  double mean_visible_keys = 0;
  std::int64_t documents = 0;
  std::string data_hash;
  double seconds = 0;
  std::vector<SweepMetric> metrics;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("pattern", self.pattern, "attention pattern");
    visit("window", self.window, "keys of its window; 0: none");
    visit("task", self.task, "task or group");
    visit("attention", self.attention, "of all layers, for people");
    visit("mean_visible_keys", self.mean_visible_keys, "of a query");
    visit("documents", self.documents, "scored");
    visit("data_sha256", self.data_hash, "of the data files");
    visit("seconds", self.seconds, "of work");
    visit("metrics", self.metrics, "what was found");
  }
};

// What all cells of a table share.
struct SweepOptions {
  std::string model;
  std::string weights = "f32";
  std::string tokenizer_fingerprint;
  std::optional<double> limit;
  std::int64_t shots = 0;
  std::int64_t stride = 0;
  std::int64_t max_length = 0;
  std::int64_t draws = 1;
  std::uint64_t seed = 0;
  bool add_prefix = false;
  AttentionOverride attention;  // pattern and window apart

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("model", self.model, "as the user named it");
    visit("weights", self.weights, "how they are kept");
    visit("tokenizer_fingerprint", self.tokenizer_fingerprint, "of its tokenizer");
    visit("limit", self.limit, "documents of a task");
    visit("num_fewshot", self.shots, "examples before a question");
    visit("stride", self.stride, "perplexity: new tokens a window");
    visit("max_length", self.max_length, "tokens that the model reads at once");
    visit("draws", self.draws, "evaluations of random patterns");
    visit("seed", self.seed, "of their permutations");
    visit("add_bos_token", self.add_prefix, "begin every text with it");
    visit("attention", self.attention, "options of the patterns");
  }
};

struct SweepTable {
  SweepOptions options;
  std::vector<SweepCell> cells;

  const SweepCell* find(const SweepSetting& setting, const std::string& task) const;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor& visit) {
    visit("options", self.options, "shared by all cells");
    visit("cells", self.cells, "one for each pattern, window and task");
  }
};

// The cell of a column whose tasks have been evaluated.
SweepCell make_cell(const TaskRegistry& registry, const SweepSetting& setting,
                    const SweepColumn& column);

// The table in `file` to go on with, or an empty one if there is none. Error Config if it was made
// with other options or of other data; Error Data if it cannot be read.
SweepTable resume_sweep(const std::filesystem::path& file, const SweepOptions& options,
                        const std::vector<SweepColumn>& columns);
std::string sweep_json(const SweepTable& table);

}  // namespace flywheel
