#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/file_io.h"
#include "support/catch.h"
#include "support/run_command.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;
namespace fs = std::filesystem;

// `evaluate` as users run it, on the model and data of tests/golden/evaluate.
namespace {

CommandResult evaluate(const std::string& arguments, const std::string& environment = "") {
  return run_command(fs::current_path(), environment + " '" EVALUATE_PROGRAM "' " + arguments);
}

const std::string kModel = "--model tests/golden/evaluate/model ";
const std::string kData = "--data tests/golden/evaluate/data ";

fs::path only_file(const fs::path& folder, const std::string& beginning) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with(beginning)) continue;
    REQUIRE(found.empty());
    found = entry.path();
  }
  REQUIRE_FALSE(found.empty());
  return found;
}

// One line that names the fault, and an exit code that is not 0.
void check_fault(const std::string& arguments, const std::string& says) {
  const CommandResult result = evaluate(arguments);
  INFO(arguments << "\n" << result.output);
  CHECK(result.exit_code > 0);
  CHECK(result.output.starts_with("evaluate: error: "));
  CHECK(result.output.find('\n') == result.output.size() - 1);
  CHECK(result.output.find(says) != std::string::npos);
}

}  // namespace

TEST_CASE("results and samples are written where and as the harness writes them") {
  const TemporaryFolder folder;
  const CommandResult result =
      evaluate(kModel + kData + "--tasks wikitext,lambada_openai,arc_easy --log_samples " +
               "--bootstrap_iters 2000 --output_path '" + folder.path().string() + "'");
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  CHECK(result.output.find("|lambada_openai|") != std::string::npos);
  const fs::path below = folder.path() / "tests__golden__evaluate__model";
  const auto json = nlohmann::json::parse(read_text_file(only_file(below, "results_")));
  const auto golden_json = nlohmann::json::parse(read_text_file(golden("evaluate/small.json")));
  for (const char* task : {"wikitext", "lambada_openai", "arc_easy"}) {
    const auto& expected = golden_json.at("zero_shot").at(task).at("metrics");
    for (const auto& [name, value] : expected.items()) {
      INFO(task << " " << name);
      const auto& ours = json.at("results").at(task).at(name);
      if (value.is_string()) {
        CHECK(ours == value);
      } else {
        CHECK(ours.get<double>() == Approx(value.get<double>()).epsilon(1e-5));
      }
    }
    std::istringstream samples(read_text_file(only_file(below, std::string("samples_") + task)));
    std::string first;
    std::getline(samples, first);
    CHECK(nlohmann::json::parse(first).at("doc_id") == 0);
  }
  CHECK(json.at("flywheel").at("attention") == "full");
}

TEST_CASE("another attention, several draws and the user's own text") {
  const TemporaryFolder folder;
  const std::string output = (folder.path() / "mine.json").string();
  const CommandResult result =
      evaluate(kModel + "--tasks perplexity --text README.md --attention sa --window 8 --draws 3 " +
               "--max_length 128 --stride 64 --output_path '" + output + "'");
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  CHECK(result.output.find("sa window 8 centered slots") != std::string::npos);
  CHECK(result.output.find("windows of 128 tokens, 64 of them new") != std::string::npos);
  const auto json = nlohmann::json::parse(read_text_file(only_file(folder.path(), "mine_")));
  const auto& section = json.at("flywheel");
  CHECK(section.at("attention_override").at("window") == 8);
  const auto& task = section.at("tasks").at("perplexity");
  CHECK(task.at("draws").at("token_perplexity").size() == 3);
  CHECK(task.at("draws").at("token_perplexity")[0] != task.at("draws").at("token_perplexity")[1]);
  CHECK(task.at("mean_visible_keys").get<double>() == Approx(4.5));
}

TEST_CASE("moba in place of a model's attention") {
  const TemporaryFolder folder;
  const auto perplexity = [&](const std::string& name, const std::string& attention) {
    const std::string output = (folder.path() / (name + ".json")).string();
    const CommandResult result =
        evaluate(kModel + "--tasks perplexity --text README.md --max_length 128 --output_path '" +
                 output + "' " + attention);
    INFO(result.output);
    REQUIRE(result.exit_code == 0);
    const auto json = nlohmann::json::parse(read_text_file(only_file(folder.path(), name + "_")));
    const auto keys = json.at("flywheel").at("tasks").at("perplexity").at("mean_visible_keys");
    const auto score = json.at("results").at("perplexity").at("token_perplexity,none");
    return std::pair(score.get<double>(), keys.get<double>());
  };
  const auto full = perplexity("full", "");
  const auto moba = perplexity("moba", "--attention moba --window 16");
  CHECK(moba.first != full.first);
  CHECK(moba.second > 8);
  CHECK(moba.second < 12.5);
  // All blocks: full attention.
  CHECK(perplexity("all", "--attention moba --moba-block 32 --moba-topk 4") == full);
}

TEST_CASE("faults are one line that says what to do") {
  check_fault(kModel + kData + "--tasks lambada_opnai", "did you mean \"lambada_openai\"?");
  check_fault(kModel + "--data /nowhere --tasks piqa", "piqa/valid.jsonl");
  check_fault(kModel + "--tasks perplexity", "--text FILE");
  check_fault(kModel + kData + "--tasks piqa --attention swe", "did you mean \"swa\"?");
  check_fault(kModel + kData + "--tasks piqa --attention sa_swa", "gates");
  check_fault(kModel + kData + "--tasks piqa --attention moba --window 7", "set moba_block");
  check_fault(kModel + kData + "--tasks piqa --window 0", "attention window 0: expected 1 or more");
  check_fault(kModel + "--tasks perplexity --text /dev/null", "/dev/null: no text in it");
  check_fault(kModel + kData + "--tasks piqa --output_path /dev/null/results",
              "/dev/null/results/tests__golden__evaluate__model: cannot create the folder");
  check_fault(kModel + kData + "--tasks piqa --band middle", "centered or trailing");
  check_fault(kModel + kData + "--tasks piqa --max_length 9999", "512 positions");
  check_fault(kModel + kData + "--tasks piqa --log_samples", "--output_path");
  check_fault(kModel + kData + "--tasks wikitext --num_fewshot 1", "--num_fewshot must be 0");
  check_fault(kModel + kData + "--tasks boolq --num_fewshot 4", "pool has 4");
  check_fault(kModel + kData + "--tasks piqa --limit 0", "--limit");
  check_fault("--model /nowhere --tasks piqa " + kData, "/nowhere");
  check_fault("--tasks piqa", "--model");
}
