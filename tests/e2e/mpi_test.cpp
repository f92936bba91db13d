// `train` under mpirun, as a user starts it.
#include <fmt/format.h>

#include <map>
#include <sstream>

#include "core/file_io.h"
#include "core/json_fields.h"
#include "e2e/train_program.h"
#include "support/catch.h"
#include "support/text.h"

namespace flywheel {
namespace {

using test::Process;
using test::require_contains;
using test::TrainProgram;

class Ranks {
 public:
  Process start(int ranks, const std::vector<std::string>& arguments) const {
    std::vector<std::string> command{MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n",
                                     std::to_string(ranks)};
    const std::vector<std::string> train{TRAIN_PROGRAM, "--config", program_.config_path().string(),
                                         "--set", "train.threads=1"};
    command.insert(command.end(), train.begin(), train.end());
    command.insert(command.end(), arguments.begin(), arguments.end());
    return Process(command, program_.path("log"));
  }
  int run(int ranks, const std::vector<std::string>& arguments) const {
    return start(ranks, arguments).wait();
  }
  // Losses of the training steps that are logged.
  std::map<std::int64_t, double> losses() const {
    std::map<std::int64_t, double> losses;
    std::istringstream lines(program_.file("metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json entry = Json::parse(line, nullptr, false);  // the last line may be torn
      if (entry.is_object() && entry["kind"] == "train") losses[entry["step"]] = entry["loss"];
    }
    return losses;
  }
  std::string log() const { return program_.log(); }
  const TrainProgram& program() const { return program_; }

  // Sends a signal to the last rank.
  void signal_last(const char* signal) const {
    const std::string ranks =
        fmt::format("pgrep -f '^{} --config {}'", TRAIN_PROGRAM, program_.config_path().string());
    REQUIRE(std::system(fmt::format("kill -{} $({} | tail -n 1)", signal, ranks).c_str()) == 0);
  }
  void wait_for_step(std::int64_t step) const {
    for (int tries = 0; tries < 600; ++tries) {
      if (std::filesystem::exists(program_.run_path("metrics.jsonl"))) {
        const auto seen = losses();
        if (!seen.empty() && seen.rbegin()->first >= step) return;
      }
      usleep(50'000);
    }
    FAIL("step " << step << " was not reached:\n" << log());
  }

 private:
  TrainProgram program_;
};

const std::vector<std::string> kShort{"--set", "train.max_steps=12", "--set", "train.log_every=1"};
const std::vector<std::string> kLong{"--set", "train.max_steps=100000",
                                     "--set", "train.log_every=1",
                                     "--set", "checkpoint.every=20"};

TEST_CASE("mpirun trains as one process does, and its checkpoints go on with one", "[mpi]") {
  const Ranks one;
  REQUIRE(one.run(1, kShort) == 0);
  for (const int ranks : {2, 4}) {
    const Ranks several;
    const int code = several.run(ranks, kShort);
    INFO(several.log());
    REQUIRE(code == 0);
    require_contains(several.log(), fmt::format("ranks: {}", ranks));
    const auto expected = one.losses();
    REQUIRE(expected.size() == 12);
    for (const auto& [step, loss] : several.losses()) {
      REQUIRE(loss == Approx(expected.at(step)).epsilon(1e-5));
    }
  }
}

TEST_CASE("the checkpoint of several ranks goes on in one", "[mpi]") {
  const Ranks ranks;
  std::vector<std::string> longer = kShort;
  REQUIRE(ranks.run(2, kShort) == 0);
  longer[1] = "train.max_steps=15";
  longer.push_back("--resume");
  REQUIRE(ranks.run(1, longer) == 0);
  REQUIRE(ranks.losses().size() == 15);
}

TEST_CASE("an interrupted job saves and says how to go on", "[mpi]") {
  const Ranks ranks;
  Process job = ranks.start(2, kLong);
  ranks.wait_for_step(5);
  ranks.signal_last("TERM");
  REQUIRE(job.wait() == 0);
  require_contains(ranks.log(), "resume with:");
  require_contains(ranks.log(), "mpirun -n 2 ");
}

TEST_CASE("a rank that dies ends the job", "[mpi]") {
  const Ranks ranks;
  Process job = ranks.start(2, kLong);
  ranks.wait_for_step(25);
  ranks.signal_last("KILL");
  REQUIRE(job.wait() != 0);
  require_contains(ranks.log(), "rank 1");
  std::vector<std::string> resumed = kShort;
  resumed[1] = "train.max_steps=60";
  resumed.push_back("--resume");
  REQUIRE(ranks.run(2, resumed) == 0);
}

TEST_CASE("a rank that hangs is named", "[mpi]") {
  const Ranks ranks;
  std::vector<std::string> arguments = kLong;
  arguments.insert(arguments.end(), {"--set", "parallel.timeout_seconds=2"});
  Process job = ranks.start(2, arguments);
  ranks.wait_for_step(5);
  ranks.signal_last("STOP");
  const int code = job.wait();
  INFO(ranks.log());
  REQUIRE(code == 6);
  require_contains(ranks.log(), "has waited 2 s for rank 1");
}

}  // namespace
}  // namespace flywheel
