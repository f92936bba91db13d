#include <cmath>
#include <cstdlib>
#include <iostream>

#include "core/error.h"
#include "core/file_io.h"
#include "plot/chart.h"
#include "report/html.h"
#include "report/report_page.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

namespace fs = std::filesystem;

bool has_gnuplot() {
  if (std::system("command -v gnuplot >/dev/null") == 0) return true;
  std::cout << "skipped: gnuplot is not here to draw\n";
  return false;
}

constexpr const char* kConfig = R"({
  "model": {"vocab_size": 257, "hidden_size": 32, "layers": 2, "heads": 2, "intermediate_size": 64, "max_positions": 64},
  "data": {"tokenizer": "byte", "train": [{"files": ["a.bin"]}], "sequence_length": 64},
  "train": {"max_steps": 20, "global_batch_tokens": 128}
})";

constexpr const char* kMetrics =
    R"({"kind":"train","step":1,"time":5.0,"loss":5.5,"learning_rate":0.1,"gradient_norm":2.0,"tokens":128.0,"tokens_per_second":64.0,"mfu":0.5}
{"kind":"train","step":10,"time":6.0,"loss":2.5,"learning_rate":0.2,"gradient_norm":1.0,"tokens":1280.0,"tokens_per_second":128.0,"mfu":0.6}
{"kind":"validation","step":10,"time":7.0,"loss":2.75,"perplexity":15.6}
{"kind":"sample","step":10,"time":8.0,"prompt":"Once <b>","number":0,"text":" & \"there\""}
{"kind":"train","step":20,"time":9.0,"loss":null,"learning_rate":0.3,"gradient_norm":1.5,"tokens":2560.0,"tokens_per_second":128.0,"mfu":0.7}
{"kind":"train","step":2)";

constexpr const char* kResults = R"({
  "results": {"wikitext": {"name": "wikitext", "word_perplexity,none": 41.5, "word_perplexity_stderr,none": "N/A"},
              "piqa": {"acc,none": 0.625, "acc_stderr,none": 0.01}},
  "flywheel": {"attention": "sa window 32", "tasks": {"piqa": {"mean_visible_keys": 16.5}}}
})";

void make_run(const fs::path& folder) {
  create_folders(folder / "results" / "model");
  write_file_atomically(folder / "config.json", kConfig);
  write_file_atomically(folder / "metrics.jsonl", kMetrics);
  write_file_atomically(folder / "results" / "model" / "results_1.json", kResults);
}

}  // namespace

TEST_CASE("a run's folder is read", "[report]") {
  const TemporaryFolder folder;
  make_run(folder.path());
  const RunRecord run = read_run(folder.path());
  REQUIRE(run.train.size() == 3);
  CHECK(run.train[1].loss == 2.5);
  CHECK(run.train[1].hours == Approx((128.0 / 64 + 1152.0 / 128) / 3600));
  CHECK(std::isnan(run.train[2].loss));
  REQUIRE(run.validation.size() == 1);
  CHECK(run.validation[0].tokens == 1280);
  CHECK(run.validation[0].hours == run.train[1].hours);
  REQUIRE(run.samples.size() == 1);
  CHECK(run.samples[0].prompt == "Once <b>");
  REQUIRE(run.evaluations.size() == 2);
  CHECK(run.evaluations[0].task == "wikitext");
  CHECK(run.evaluations[0].metrics == std::map<std::string, double>{{"word_perplexity", 41.5}});
  CHECK(run.evaluations[1].attention == "sa window 32");
  CHECK(run.evaluations[1].mean_visible_keys == 16.5);
}

TEST_CASE("what is no run is refused by name", "[report]") {
  const TemporaryFolder folder;
  CHECK(contains(error_of([&] { read_run(folder.path()); }), "no config.json in it"));
  make_run(folder.path());
  write_file_atomically(folder.path() / "metrics.jsonl", std::string("{\"step\":1}\nbroken\n"));
  CHECK(contains(error_of([&] { read_run(folder.path()); }), "metrics.jsonl: line 2"));
  write_file_atomically(folder.path() / "metrics.jsonl", std::string("{\"ste"));
  CHECK(contains(error_of([&] { read_run(folder.path()); }), "no step was logged yet"));
  make_run(folder.path());
  write_file_atomically(folder.path() / "results" / "results_2.json", std::string("{}"));
  CHECK(contains(error_of([&] { read_run(folder.path()); }), "results_2.json: no results"));
}

TEST_CASE("runs are named by what tells them apart", "[report]") {
  const auto names = [](const std::vector<std::string>& folders) {
    std::vector<RunRecord> runs;
    for (const std::string& folder : folders) {
      runs.emplace_back();
      runs.back().name = runs.back().folder = folder;
    }
    shorten_names(runs);
    std::vector<std::string> result;
    for (const RunRecord& run : runs) result.push_back(run.name);
    return result;
  };
  CHECK(names({"runs/a/train", "runs/b/train"}) == std::vector<std::string>{"a", "b"});
  CHECK(names({"runs/a", "runs/a/train"}) == std::vector<std::string>{"a", "a/train"});
  CHECK(names({"runs/demo/train"}) == std::vector<std::string>{"runs/demo/train"});
  CHECK(names({"x", "x"}) == std::vector<std::string>{"x", "x"});
}

TEST_CASE("the page holds every part, and text is no markup", "[report]") {
  if (!has_gnuplot()) return;
  const TemporaryFolder folder;
  make_run(folder.path() / "one");
  make_run(folder.path() / "two");
  std::vector<RunRecord> runs{read_run(folder.path() / "one"), read_run(folder.path() / "two")};
  runs[1].config.model.layers = 3;
  for (auto& [key, value] : runs[1].values) {
    if (key == "model.layers") value = "3";
  }
  shorten_names(runs);
  const std::string page = report_page(runs);
  for (const char* part :
       {"<h1>one, two</h1>", "2.75 (perplexity 15.64) at step 10", "20 of 20", "<svg",
        "<b>Once &lt;b&gt;</b> &amp; &quot;there&quot;", "word_perplexity", "0.625", "16.5",
        "<tr class=\"differs\"><td>model.layers</td><td>2</td><td>3</td></tr>", "optimizer moments",
        "model.embed_tokens.weight"}) {
    INFO(part);
    CHECK(contains(page, part));
  }
  for (const char* elsewhere : {"<script", "src=\"http", "href=\"http", "@import", "\"black\""}) {
    INFO(elsewhere);
    CHECK_FALSE(contains(page, elsewhere));
  }
}

TEST_CASE("a chart needs points and keeps odd titles", "[report]") {
  if (!has_gnuplot()) return;
  Chart chart{
      .title = "a_b \"c\" \\ $x `date` @d it's", .x_label = "x", .y_label = "y", .series = {}};
  CHECK(contains(error_of([&] { chart_file(chart); }), "nothing to draw"));
  chart.series = {{.title = "only", .points = {{1, std::nan("")}, {2, 3}, {4, 5}}}};
  const std::string svg = chart_file(chart);
  CHECK(contains(svg, "a_b \"c\" \\ $x `date` @d it's"));
  CHECK(contains(svg, "fill=\"white\""));
}
