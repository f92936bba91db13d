// The program `analyze` (ANALYZE_PROGRAM) as a user runs it.

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "core/file_io.h"
#include "core/json_fields.h"
#include "support/catch.h"
#include "support/process.h"
#include "support/run_command.h"
#include "support/test_data.h"
#include "support/text.h"

namespace flywheel::test {
namespace {

namespace fs = std::filesystem;

constexpr int kConfigError = 2;
constexpr int kDataError = 3;

class Desk {
 public:
  CommandResult analyze(const std::string& arguments) const {
    return run_command(folder_.path(), std::string(ANALYZE_PROGRAM) + " " + arguments);
  }
  void require_error(const std::string& arguments, int code, const std::string& part) const {
    const CommandResult result = analyze(arguments);
    INFO(arguments << "\n" << result.output);
    REQUIRE(result.exit_code == code);
    require_contains(result.output, "analyze: error: ");
    require_contains(result.output, part);
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }

 private:
  TemporaryFolder folder_;
};

bool has_gnuplot() {
  return run_command(".", "command -v gnuplot").exit_code == 0;
}

}  // namespace

TEST_CASE("every subcommand explains itself") {
  const Desk desk;
  require_contains(desk.analyze("--help").output, "analyze coverage --config");
  for (const std::string name : {"coverage", "graph", "mixing"}) {
    const CommandResult help = desk.analyze(name + " --help");
    REQUIRE(help.exit_code == 0);
    require_contains(help.output, "--patterns LIST");
  }
  desk.require_error("", kConfigError, "a subcommand is needed");
  desk.require_error("coverag", kConfigError, "did you mean 'coverage'?");
}

TEST_CASE("coverage as a table, CSV, JSON and figure") {
  const Desk desk;
  const bool draw = has_gnuplot();
  const CommandResult result = desk.analyze(
      "coverage -n 256 --window 16 --layers 20 --seeds 2 --csv a/b/c.csv --json c.json" +
      std::string(draw ? " --figure c.svg" : ""));
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  require_contains(result.output, "n / w = 16.0, log_w(n) = 2.00");
  require_contains(read_text_file(desk.path("a/b/c.csv")), "swa,17,1,1,1,0\n");
  const Json json = read_json_file(desk.path("c.json"));
  REQUIRE(json.at("patterns").size() == 4);
  REQUIRE(json.at("patterns").at(1).at("seeds").at(1).at("depth_all") == 17);
  if (draw) require_contains(read_text_file(desk.path("c.svg")), "sa_swa");
}

TEST_CASE("coverage of a config's layers, and of windows longer than the text") {
  const Desk desk;
  const std::string config = (fs::current_path() / "configs/gpt_360m_sa_swa.json").string();
  const CommandResult result = desk.analyze("coverage -n 512 --config " + config);
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  require_contains(result.output, "gpt_360m_sa_swa");
  require_contains(desk.analyze("coverage -n 8 --window 16 --patterns swa").output,
                   "note: swa with this window is full attention over 8 tokens");
  desk.require_error("coverage --window 8 --config " + config, kConfigError, "--window");
  desk.require_error("coverage -n 0", kConfigError, "--tokens 0");
  desk.require_error("coverage --patterns swb", kConfigError, "did you mean \"swa\"?");
  desk.require_error("coverage --queries 9 -n 8", kConfigError, "9 queries");
  desk.require_error("coverage --figure c.png", kConfigError, ".svg");
}

TEST_CASE("statistics of an edge list beside stacks of its density") {
  const Desk desk;
  std::string edges = "source,target,weight\n";
  for (int i = 0; i < 60; ++i) {
    for (int d = 1; d <= 3; ++d) edges += fmt::format("{},{},1\n", i, (i + d) % 60);
  }
  write_file_atomically(desk.path("ring.csv"), edges + "7,7,1\n1,2,1\n");
  const CommandResult result = desk.analyze(
      "graph --edges ring.csv --match --layers 2 --random-graphs 2 --json g.json --csv g.csv");
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  require_contains(result.output, "60 nodes, 180 edges; left out: 1 self-loops, 1 repeated edges");
  const Json json = read_json_file(desk.path("g.json"));
  REQUIRE(json.at("graphs").size() == 4);
  REQUIRE(json.at("graphs").at(0).at("graph").at("clustering").get<double>() == Approx(0.6));
  require_contains(read_text_file(desk.path("g.csv")), "ring,erdos_renyi,60,180,");

  write_file_atomically(desk.path("bad.csv"), "from,to\na,b\n");
  desk.require_error("graph --edges bad.csv", kDataError, "no column 'source'");
  desk.require_error("graph --match", kConfigError, "--match needs --edges");
  desk.require_error("graph --edges absent.csv", 4, "absent.csv");
  desk.require_error("graph --patterns full -n 100000", kConfigError, "take fewer tokens");
}

TEST_CASE("mixing of products and the error of the estimator") {
  const Desk desk;
  const CommandResult result = desk.analyze(
      "mixing -n 128 --window 8 --layers 3 --windows 4,8,16 --draws 20 --json m.json --no-mask");
  INFO(result.output);
  REQUIRE(result.exit_code == 0);
  require_contains(result.output, "slope of the logarithms");
  const Json json = read_json_file(desk.path("m.json"));
  REQUIRE(json.at("singular_values").size() == 4);
  REQUIRE(json.at("estimator").size() == 3);
}

TEST_CASE("an interrupted analysis leaves earlier results whole") {
  const Desk desk;
  REQUIRE(desk.analyze("coverage -n 64 --window 8 --csv c.csv").exit_code == 0);
  const std::string before = read_text_file(desk.path("c.csv"));
  Process process({ANALYZE_PROGRAM, "coverage", "-n", "16384", "--window", "64", "--layers", "500",
                   "--csv", desk.path("c.csv").string()},
                  desk.path("log"));
  ::usleep(300000);
  process.send(SIGINT);
  REQUIRE(process.wait() == 128 + SIGINT);
  REQUIRE(read_text_file(desk.path("c.csv")) == before);
  REQUIRE(std::distance(fs::directory_iterator(desk.path("")), {}) == 2);  // and the log
}

TEST_CASE("a figure without gnuplot is refused before the work") {
  const Desk desk;
  const CommandResult result = run_command(
      desk.path(""), "PATH=/nowhere " + std::string(ANALYZE_PROGRAM) + " coverage --figure c.svg");
  REQUIRE(result.exit_code == kConfigError);
  require_contains(result.output, "apt-get install gnuplot-nox");
}

}  // namespace flywheel::test
