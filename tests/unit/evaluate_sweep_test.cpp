#include <cstdlib>
#include <iostream>

#include "core/file_io.h"
#include "eval/sweep.h"
#include "eval/sweep_figure.h"
#include "eval/sweep_tables.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

SweepCell cell(const SweepSetting& setting, const std::string& task, double keys,
               std::vector<SweepMetric> metrics) {
  return {.pattern = setting.pattern,
          .window = setting.window,
          .task = task,
          .attention = setting.pattern + ", all layers",
          .mean_visible_keys = keys,
          .documents = 10,
          .data_hash = "hash of " + task,
          .seconds = 1,
          .metrics = std::move(metrics)};
}

const SweepSetting kFull{"full", 0};
const SweepSetting kSa{"sa", 16};

SweepTable small_table() {
  SweepTable table;
  table.options = {.model = "model", .limit = 10, .max_length = 64};
  table.cells = {
      cell(kFull, "arc_easy", 30, {{"acc", 0.5, 0.3, {0.5}}, {"acc_norm", 0.6, 0.03, {0.6}}}),
      cell(kFull, "wikitext", 50, {{"word_perplexity", 12.5, {}, {12.5}}}),
      cell(kFull, "boolq", 90, {{"acc", 0.7, 0.04, {0.7}}}),
      cell(kSa, "arc_easy", 8, {{"acc", 0.4, 0.3, {0.3, 0.5}}, {"acc_norm", 0.5, 0.02, {0.5}}})};
  return table;
}

const std::vector<std::string> kColumns{"arc_easy", "wikitext", "boolq"};

EvaluationOptions golden_options() {
  EvaluationOptions options;
  options.data = "tests/golden/evaluate/data";
  return options;
}

}  // namespace

TEST_CASE("every pattern meets every window, full once", "[sweep]") {
  const auto settings = sweep_settings({"full", "swa", "full", "sa"}, {16, 8, 16});
  REQUIRE(settings ==
          std::vector<SweepSetting>{{"full", 0}, {"swa", 16}, {"swa", 8}, {"sa", 16}, {"sa", 8}});
  REQUIRE(sweep_settings({"full"}, {}).size() == 1);
  CHECK(contains(error_of([] { sweep_settings({"full", "swa"}, {}); }), "--windows"));
  CHECK(contains(error_of([] { sweep_settings({"swa"}, {0}); }), "--windows 0"));
  CHECK(contains(error_of([] { sweep_settings({}, {8}); }), "no pattern"));
}

TEST_CASE("the table shows headlines, and a mean where no cell is missing", "[sweep]") {
  REQUIRE(
      sweep_markdown(small_table(), {kFull, kSa}, kColumns) ==
      R"(model (f32); 10 documents a task at most, 0 examples before a question, 64 tokens at once. Accuracies in percent ± standard error.

| pattern | window | visible keys | arc_easy acc_norm | wikitext word_perplexity | boolq acc | mean |
|---|---:|---:|---:|---:|---:|---:|
| full | - | 60.0 | 60.0 ± 3.0 | 12.50 | 70.0 ± 4.0 | 65.0 ± 2.5 |
| sa | 16 | - | 50.0 ± 2.0 | - | - | - |
)");
}

TEST_CASE("the CSV file has a line for each metric", "[sweep]") {
  REQUIRE(
      sweep_csv(small_table()) ==
      R"(pattern,window,task,metric,value,stderr,draws,deviation,documents,mean_visible_keys,seconds,attention
full,0,arc_easy,acc,0.5,0.3,1,,10,30.00,1.0,"full, all layers"
full,0,arc_easy,acc_norm,0.6,0.03,1,,10,30.00,1.0,"full, all layers"
full,0,wikitext,word_perplexity,12.5,,1,,10,50.00,1.0,"full, all layers"
full,0,boolq,acc,0.7,0.04,1,,10,90.00,1.0,"full, all layers"
sa,16,arc_easy,acc,0.4,0.3,2,0.141421,10,8.00,1.0,"sa, all layers"
sa,16,arc_easy,acc_norm,0.5,0.02,1,,10,8.00,1.0,"sa, all layers"
)");
}

TEST_CASE("a sweep goes on where it stopped, with the same options only", "[sweep]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "sweep.json";
  const SweepTable table = small_table();
  REQUIRE(resume_sweep(file, table.options, {}).cells.empty());
  write_file_atomically(file, sweep_json(table));
  const SweepTable again = resume_sweep(file, table.options, {});
  REQUIRE(sweep_json(again) == sweep_json(table));
  REQUIRE(again.find(kSa, "arc_easy")->metrics[0].draws == std::vector<double>{0.3, 0.5});
  REQUIRE(again.find(kSa, "boolq") == nullptr);

  SweepOptions other = table.options;
  other.limit = 20;
  CHECK(contains(error_of([&] { resume_sweep(file, other, {}); }), "with limit 10.0, not 20.0"));
  other = table.options;
  other.attention.band = Band::Trailing;
  CHECK(contains(error_of([&] { resume_sweep(file, other, {}); }), "with attention"));
  const SweepColumn changed{"boolq", {TaskResult{.file_hash = "another"}}};
  CHECK(contains(error_of([&] { resume_sweep(file, table.options, {changed}); }),
                 "the data of boolq have changed"));
  SweepTable hollow = table;
  hollow.cells[0].metrics.clear();
  write_file_atomically(file, sweep_json(hollow));
  CHECK(contains(error_of([&] { resume_sweep(file, table.options, {}); }), "has no metrics"));
  write_file_atomically(file, "{\"cells\": [");
  CHECK(contains(error_of([&] { resume_sweep(file, table.options, {}); }), "remove it"));
  write_file_atomically(file, "{\"cells\": 3}");
  CHECK(contains(error_of([&] { resume_sweep(file, table.options, {}); }), "remove it"));
}

TEST_CASE("a group is one column, other names are a column for each task", "[sweep]") {
  const TaskRegistry registry;
  EvaluationOptions options = golden_options();
  const auto columns = sweep_columns(registry, "lambada,arc_easy,lambada_openai", options);
  REQUIRE(columns.size() == 3);
  CHECK(columns[0].name == "lambada_openai");
  CHECK(columns[1].name == "lambada_standard");
  CHECK(columns[2].name == "arc_easy");
  CHECK(columns[2].documents() == 3);
  CHECK(columns[2].data_hash() == columns[2].tasks[0].file_hash);
  CHECK(columns[2].bytes() > 0);
  options.limit = 2;
  CHECK(sweep_columns(registry, "arc_easy", options)[0].documents() == 2);
  CHECK(contains(error_of([&] { sweep_columns(registry, "arc_eazy", options); }), "arc_easy"));
}

TEST_CASE("a cell sums up its column", "[sweep]") {
  const TaskRegistry registry;
  auto columns = sweep_columns(registry, "arc_easy", golden_options());
  TaskResult& task = columns[0].tasks[0];
  task.metrics = {{.name = "acc", .value = 0.25, .error = 0.125, .draws = {0.25}}};
  task.mean_visible_keys = 17;
  const SweepCell result = make_cell(registry, kSa, columns[0]);
  CHECK(result.pattern == "sa");
  CHECK(result.window == 16);
  CHECK(result.documents == 3);
  CHECK(result.mean_visible_keys == Approx(17));
  REQUIRE(result.metrics.size() == 1);
  CHECK(result.metrics[0].value == 0.25);
  CHECK(result.metrics[0].error == 0.125);
}

TEST_CASE("the figure has a panel for each column and one for the mean", "[sweep]") {
  if (std::system("command -v gnuplot >/dev/null") != 0) {
    std::cout << "skipped: gnuplot is not here to draw\n";
    return;
  }
  const std::string svg = sweep_figure(small_table(), {kFull, kSa}, kColumns);
  for (const char* text : {"arc_easy", "acc_norm, %", "wikitext", "word_perplexity", "boolq",
                           "mean of all accuracies", "mean visible keys of a query"}) {
    INFO(text);
    CHECK(contains(svg, text));
  }
  CHECK(contains(error_of([] { sweep_figure({}, {kFull}, kColumns); }), "nothing to draw"));
}
