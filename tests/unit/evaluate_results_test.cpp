#include "core/json_fields.h"
#include "eval/result_files.h"
#include "eval/results_table.h"
#include "support/catch.h"
#include "support/errors.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

MetricResult metric(const std::string& name, double value, std::optional<double> error,
                    std::vector<double> draws = {}) {
  return {.name = name, .value = value, .error = error, .draws = std::move(draws)};
}

TaskResult task(const std::string& name, std::vector<MetricResult> metrics) {
  TaskResult result;
  result.task = TaskRegistry().select(name).at(0);
  result.metrics = std::move(metrics);
  return result;
}

GroupResult group(const std::string& name, const std::string& alias,
                  std::vector<std::string> members, double acc) {
  return {.group = {.name = name,
                    .alias = alias,
                    .version = "2",
                    .metrics = {"acc"},
                    .members = std::move(members)},
          .documents = 10,
          .metrics = {metric("acc", acc, 0.0036)}};
}

}  // namespace

// The tables are what the harness 0.4.13 prints for these numbers.
TEST_CASE("the table is the harness's", "[evaluate]") {
  const EvaluationResults two{
      .tasks = {
          task("lambada_openai",
               {metric("perplexity", 40.0554, 1.4787), metric("acc", 0.3256, 0.0065)}),
          task("hellaswag", {metric("acc", 0.2892, 0.0045), metric("acc_norm", 0.3114, 0.0046)})}};
  CHECK("\n" + results_tables(two) == R"(
|    Tasks     |Version|Filter|n-shot|  Metric  |   | Value |   |Stderr|
|--------------|------:|------|-----:|----------|---|------:|---|-----:|
|hellaswag     |      1|none  |     0|acc       |↑  | 0.2892|±  |0.0045|
|              |       |none  |     0|acc_norm  |↑  | 0.3114|±  |0.0046|
|lambada_openai|      1|none  |     0|acc       |↑  | 0.3256|±  |0.0065|
|              |       |none  |     0|perplexity|↓  |40.0554|±  |1.4787|
)");
  const EvaluationResults rolling{
      .tasks = {task("wikitext",
                     {metric("word_perplexity", 37.3712, {}), metric("byte_perplexity", 1.968, {}),
                      metric("bits_per_byte", 0.9769, {})})}};
  CHECK("\n" + results_tables(rolling) == R"(
| Tasks  |Version|Filter|n-shot|    Metric     |   | Value |   |Stderr|
|--------|------:|------|-----:|---------------|---|------:|---|------|
|wikitext|      2|none  |     0|bits_per_byte  |↓  | 0.9769|±  |   N/A|
|        |       |none  |     0|byte_perplexity|↓  | 1.9680|±  |   N/A|
|        |       |none  |     0|word_perplexity|↓  |37.3712|±  |   N/A|
)");
  const EvaluationResults round{.tasks = {task("boolq", {metric("acc", 0.25, 0.0)})}};
  CHECK("\n" + results_tables(round) == R"(
|Tasks|Version|Filter|n-shot|Metric|   |Value|   |Stderr|
|-----|------:|------|-----:|------|---|----:|---|-----:|
|boolq|      2|none  |     0|acc   |↑  | 0.25|±  |     0|
)");
}

TEST_CASE("groups stand above their members, and in a table of their own", "[evaluate]") {
  const EvaluationResults results{
      .tasks = {task("mmlu_anatomy", {metric("acc", 0.25, 0.0036)}),
                task("mmlu_virology", {metric("acc", 0.253, 0.0036)})},
      .groups = {group("mmlu", "mmlu", {"mmlu_stem", "mmlu_other"}, 0.25),
                 group("mmlu_stem", "stem", {"mmlu_anatomy"}, 0.25),
                 group("mmlu_other", "other", {"mmlu_virology"}, 0.21)}};
  CHECK("\n" + results_tables(results) == R"(
|   Tasks    |Version|Filter|n-shot|Metric|   |Value|   |Stderr|
|------------|------:|------|-----:|------|---|----:|---|-----:|
|mmlu        |      2|none  |      |acc   |↑  |0.250|±  |0.0036|
| - other    |      2|none  |      |acc   |↑  |0.210|±  |0.0036|
|  - virology|      1|none  |     0|acc   |↑  |0.253|±  |0.0036|
| - stem     |      2|none  |      |acc   |↑  |0.250|±  |0.0036|
|  - anatomy |      1|none  |     0|acc   |↑  |0.250|±  |0.0036|

| Groups |Version|Filter|n-shot|Metric|   |Value|   |Stderr|
|--------|------:|------|------|------|---|----:|---|-----:|
|mmlu    |      2|none  |      |acc   |↑  | 0.25|±  |0.0036|
| - other|      2|none  |      |acc   |↑  | 0.21|±  |0.0036|
| - stem |      2|none  |      |acc   |↑  | 0.25|±  |0.0036|
)");
}

TEST_CASE("several draws are shown with their spread", "[evaluate]") {
  const EvaluationResults results{
      .tasks = {task("boolq", {metric("acc", 0.5, 0.1, {0.25, 0.5, 0.75})})}};
  CHECK("\n" + draws_table(results) == R"(
|Tasks|Metric|Draws|Mean|Deviation|Lowest|Highest|
|-----|------|----:|---:|--------:|-----:|------:|
|boolq|acc   |    3| 0.5|     0.25|  0.25|   0.75|
)");
}

TEST_CASE("the results file has the harness's keys", "[evaluate]") {
  const EvaluationResults results{
      .tasks = {task("hellaswag",
                     {metric("acc", 0.25, 0.125, {0.25}), metric("acc_norm", 0.5, {}, {0.5})})}};
  EvaluationRecord record;
  record.model_name = "runs/a:b";
  const Json json = Json::parse(results_json(results, record, 1.5));
  const Json& scores = json.at("results").at("hellaswag");
  CHECK(scores.at("acc,none") == 0.25);
  CHECK(scores.at("acc_stderr,none") == 0.125);
  CHECK(scores.at("acc_norm_stderr,none") == "N/A");
  CHECK(json.at("versions").at("hellaswag") == 1.0);
  CHECK(json.at("higher_is_better").at("hellaswag").at("acc_norm") == true);
  CHECK_FALSE(json.contains("groups"));
  CHECK(json.at("config").at("limit").is_null());
  CHECK(json.at("flywheel").at("tasks").at("hellaswag").at("draws").at("acc")[0] == 0.25);
}

TEST_CASE("result files are named as the harness names them", "[evaluate]") {
  CHECK(sanitized_model_name("runs/a:b?/c") == "runs__a__b__c");
  const ResultPaths folder = result_paths("out", "gpt/2", "D");
  CHECK(folder.results == "out/gpt__2/results_D.json");
  CHECK(folder.samples("piqa") == "out/gpt__2/samples_piqa_D.jsonl");
  const ResultPaths file = result_paths("out/mine.json", "gpt/2", "D");
  CHECK(file.results == "out/mine_D.json");
  CHECK(file.samples("piqa") == "out/samples_piqa_D.jsonl");
}

TEST_CASE("tasks are chosen by name, pattern, tag and group", "[evaluate]") {
  const TaskRegistry registry;
  const auto names = [&](const std::string& wanted) {
    std::string text;
    for (const Task& chosen : registry.select(wanted)) text += chosen.name + " ";
    return text;
  };
  CHECK(names("piqa,copa,piqa") == "piqa copa ");
  CHECK(names("lambada") == "lambada_openai lambada_standard ");
  CHECK(names("arc_*") == "arc_easy arc_challenge ");
  CHECK(registry.select("mmlu").size() == 57);
  CHECK(registry.select("mmlu*").size() == 57);
  CHECK(registry.groups_of(registry.select("mmlu")).size() == 5);
  CHECK(registry.groups_of(registry.select("mmlu_stem")).size() == 1);
  CHECK(registry.groups_of(registry.select("mmlu_anatomy")).empty());
  CHECK(contains(error_of([&] { registry.select("hellswag"); }), "did you mean \"hellaswag\"?"));
  CHECK(contains(error_of([&] { registry.select(""); }), "no task"));
}
