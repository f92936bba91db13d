#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/file_io.h"
#include "support/catch.h"
#include "support/run_command.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;
namespace fs = std::filesystem;

// `sweep` as users run it, on the model and data of tests/golden/evaluate.
namespace {

const std::string kModel = "--model tests/golden/evaluate/model ";
const std::string kData = "--data tests/golden/evaluate/data ";

CommandResult sweep(const std::string& arguments) {
  return run_command(fs::current_path(), "'" SWEEP_PROGRAM "' " + arguments);
}

nlohmann::json cells_of(const fs::path& folder) {
  return nlohmann::json::parse(read_text_file(folder / "sweep.json")).at("cells");
}

void check_fault(const std::string& arguments, const std::string& says) {
  const CommandResult result = sweep(arguments);
  INFO(arguments << "\n" << result.output);
  CHECK(result.exit_code > 0);
  CHECK(result.output.starts_with("sweep: error: "));
  CHECK(result.output.find('\n') == result.output.size() - 1);
  CHECK(result.output.find(says) != std::string::npos);
}

}  // namespace

TEST_CASE("a sweep fills its table, goes on with it and draws it") {
  const TemporaryFolder folder;
  const std::string output = "--output '" + folder.path().string() + "' ";
  const std::string tasks = kModel + kData + "--tasks lambada_openai,arc_easy " + output;
  const CommandResult first = sweep(tasks + "--patterns full,swa --windows 8,600");
  INFO(first.output);
  REQUIRE(first.exit_code == 0);
  const auto cells = cells_of(folder.path());
  REQUIRE(cells.size() == 6);
  // A window wider than every text: full attention.
  CHECK(cells[0].at("attention") == "full");
  CHECK(cells[4].at("attention") == "swa window 600");
  CHECK(cells[4].at("metrics") == cells[0].at("metrics"));
  CHECK(cells[4].at("mean_visible_keys") == cells[0].at("mean_visible_keys"));
  CHECK(cells[2].at("mean_visible_keys").get<double>() < 8);
  CHECK(cells[2].at("metrics") != cells[0].at("metrics"));

  const CommandResult second =
      sweep(tasks + "--patterns full,swa,sa,moba --windows 8,600 --draws 1");
  INFO(second.output);
  REQUIRE(second.exit_code == 0);
  CHECK(second.output.find("full, arc_easy") == std::string::npos);
  const auto more = cells_of(folder.path());
  REQUIRE(more.size() == 14);
  CHECK(std::equal(cells.begin(), cells.end(), more.begin()));
  CHECK(more[8].at("metrics") == cells[0].at("metrics"));  // sa, 600 slots
  CHECK(more[10].at("attention") == "moba block 4 top 2");
  CHECK(more[10].at("mean_visible_keys").get<double>() == Approx(6.5).margin(0.4));
  CHECK(more[10].at("metrics") != cells[2].at("metrics"));
  CHECK(second.output.find(read_text_file(folder.path() / "sweep.md")) != std::string::npos);
  const std::string csv = read_text_file(folder.path() / "sweep.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 14 * 2);
  check_fault(tasks + "--limit 1", "was made with limit null, not 1.0");
}

TEST_CASE("faults of a sweep are one line that says what to do") {
  const TemporaryFolder folder;
  const std::string output = "--output '" + (folder.path() / "new").string() + "' ";
  check_fault(kData + "--tasks piqa " + output, "--model is needed");
  check_fault(kModel + kData + "--tasks piqa", "--output is needed");
  check_fault(kModel + kData + "--tasks lambada_opnai " + output, "did you mean");
  check_fault(kModel + kData + "--tasks piqa --patterns full,swe " + output,
              "did you mean \"swa\"?");
  check_fault(kModel + kData + "--tasks piqa --patterns sa_swa " + output, "gates");
  check_fault(kModel + kData + "--tasks piqa --patterns swa --windows 0 " + output, "--windows 0");
  check_fault(kModel + kData + "--tasks piqa --output /dev/null/x ", "/dev/null/x");
  CHECK_FALSE(fs::exists(folder.path() / "new"));
}
