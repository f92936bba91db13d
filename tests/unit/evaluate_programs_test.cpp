#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "core/file_io.h"
#include "core/json_fields.h"
#include "eval/program_runner.h"
#include "eval/program_task.h"
#include "eval/result_files.h"
#include "support/catch.h"
#include "support/character_tokenizer.h"
#include "support/errors.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;
using namespace std::chrono_literals;

namespace {

bool has_python() {
  if (std::system("python3 -c '' 2>/dev/null") == 0) return true;
  std::cout << "skipped: python3 is not here to run programs\n";
  return false;
}

TaskResult humaneval(const std::filesystem::path& data, std::optional<double> limit = {}) {
  return prepare_task(TaskRegistry().select("humaneval").at(0),
                      {.data = data, .text = {}, .limit = limit, .allow_programs = true});
}

// The model writes `text` after each prompt, if that is not empty, else the right answer.
void evaluate(TaskResult& task, std::int64_t max_length, const std::string& text = "") {
  const CharacterTokenizer tokenizer;
  const RequestEncoder encoder(tokenizer, {.max_length = max_length});
  ModelConfig config;
  config.layers = 1;
  evaluate_program_task(
      task, config, encoder,
      [&](std::span<const std::vector<std::int32_t>> prompts, const Writing&) {
        std::vector<std::string> outputs;
        for (std::size_t i = 0; i < prompts.size(); ++i) {
          const Json document = Json::parse(task.documents[i].item.document);
          outputs.push_back(text.empty() ? document["canonical_solution"].get<std::string>() +
                                               "\nprint(1)\nraise ValueError"
                                         : text);
        }
        return outputs;
      });
}

}  // namespace

TEST_CASE("a program passes if it runs to its end", "[evaluate]") {
  if (!has_python()) return;
  CHECK(runs_to_its_end("x = 1\nassert x == 1\nprint('hidden')"));
  CHECK_FALSE(runs_to_its_end("assert False"));
  CHECK_FALSE(runs_to_its_end("this is no program"));
  CHECK_FALSE(runs_to_its_end("raise SystemExit(0)"));
  CHECK_FALSE(runs_to_its_end("import sys\nsys.exit()"));
  CHECK_FALSE(runs_to_its_end("import os\nos.kill(os.getpid(), 9)"));
  CHECK(runs_to_its_end("import sys\nassert sys.stdin.read() == ''"));
}

TEST_CASE("a program has limits, and nothing of it stays", "[evaluate]") {
  if (!has_python()) return;
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(runs_to_its_end("while True: pass", 100ms));
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  CHECK_FALSE(runs_to_its_end("x = bytearray(8 << 30)"));
  CHECK_FALSE(runs_to_its_end("open('big', 'wb').write(bytes(32 << 20))"));

  const TemporaryFolder folder;
  const std::string mark = (folder.path() / "mark").string();
  CHECK(runs_to_its_end("import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 1; touch " + mark +
                        "'])\nimport os\nfolder = os.getcwd()\nopen('" + mark +
                        ".folder', 'w').write(folder)"));
  CHECK_FALSE(std::filesystem::exists(read_text_file(mark + ".folder")));
  std::this_thread::sleep_for(1500ms);
  CHECK_FALSE(std::filesystem::exists(mark));
}

TEST_CASE("humaneval: right answers pass, up to the first stop string", "[evaluate]") {
  if (!has_python()) return;
  TaskResult task = humaneval(golden("evaluate/data"));
  CHECK(task.documents[0].requests[0].context ==
        "def doubled(number):\n    \"\"\"Twice the number.\"\"\"\n");
  evaluate(task, 2048);
  REQUIRE(task.metrics.size() == 1);
  CHECK(task.metrics[0].name == "pass@1");
  CHECK(task.metrics[0].value == 1);
  CHECK(task.documents[0].score.output == "    return 2 * number\n");
  CHECK(program_of(task.documents[0]) ==
        "def doubled(number):\n    \"\"\"Twice the number.\"\"\"\n    return 2 * number\n\n"
        "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(-1) == -2\n"
        "\ncheck(doubled)");

  evaluate(task, 2048, "    return 2 * number\n");
  CHECK(task.metrics[0].value == 0.5);
  CHECK(*task.metrics[0].error == Approx(0.5));
  const Json json =
      Json::parse(results_json({.tasks = {task}, .groups = {}}, {.model_name = "m"}, 0));
  CHECK(json["results"]["humaneval"]["pass@1,create_test"] == 0.5);
  CHECK(json["higher_is_better"]["humaneval"]["pass@1"] == true);
  const Json sample = Json::parse(samples_jsonl(task).substr(0, samples_jsonl(task).find('\n')));
  CHECK(sample["resps"][0][0] == "    return 2 * number\n");
  CHECK(sample["pass@1"] == 1.0);
  CHECK(sample["filter"] == "create_test");
}

TEST_CASE("humaneval's own answers pass", "[evaluate]") {
  const auto file = real_data("humaneval/HumanEval.jsonl");
  if (!has_python()) return;
  if (!file) {
    std::cout << "skipped: HumanEval is not here\n";
    return;
  }
  TaskResult task = humaneval(file->parent_path().parent_path(), 20);
  evaluate(task, 4096);
  CHECK(task.metrics.at(0).value == 1);
}

TEST_CASE("humaneval asks for permission and for room", "[evaluate]") {
  const auto task = TaskRegistry().select("humaneval").at(0);
  CHECK(contains(error_of([&] { prepare_task(task, {.data = golden("evaluate/data")}); }),
                 "--allow-code-execution"));
  TaskResult prepared = humaneval(golden("evaluate/data"));
  CHECK(contains(error_of([&] { evaluate(prepared, 1024); }), "1024 are needed"));
}
