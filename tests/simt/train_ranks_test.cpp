// `train` as the ranks of a job on emulated GPUs, as a launcher starts it.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <sstream>

#include "core/file_io.h"
#include "core/json_fields.h"
#include "e2e/train_program.h"
#include "support/catch.h"
#include "support/forked_ranks.h"
#include "support/text.h"

namespace flywheel {
namespace {

using test::Process;
using test::require_contains;
using Flags = std::vector<std::string>;

class Job {
 public:
  explicit Job(const std::string& precision)
      : flags_{"--config", program_.config_path().string(), "--set", "train.device=cuda",
               "--set",    "train.precision=" + precision,  "--set", "train.log_every=1",
               "--set",    "parallel.timeout_seconds=60",   "--set", "checkpoint.every=2"} {}

  // As torchrun does.
  void start(int ranks, const Flags& more) {
    processes_.clear();
    const int port = test::free_port();
    for (int rank = 0; rank < ranks; ++rank) {
      Flags command{"/usr/bin/env",
                    fmt::format("TMPDIR={}", program_.path("").string()),
                    fmt::format("RANK={}", rank),
                    fmt::format("LOCAL_RANK={}", rank),
                    fmt::format("WORLD_SIZE={}", ranks),
                    "MASTER_ADDR=127.0.0.1",
                    fmt::format("MASTER_PORT={}", port),
                    TRAIN_PROGRAM};
      processes_.push_back(start_process(std::move(command), more, log_name(rank)));
    }
  }
  void start_with_mpirun(const std::string& mpirun, int ranks, const Flags& more) {
    processes_.clear();
    processes_.push_back(start_process({mpirun, "--allow-run-as-root", "--oversubscribe", "-n",
                                        std::to_string(ranks), TRAIN_PROGRAM},
                                       more, log_name(0)));
  }
  std::vector<int> wait() {
    std::vector<int> codes;
    for (const auto& process : processes_) codes.push_back(process->wait());
    return codes;
  }
  int wait_for(int rank) { return processes_[static_cast<std::size_t>(rank)]->wait(); }
  void send(int rank, int signal) { processes_[static_cast<std::size_t>(rank)]->send(signal); }

  std::string log(int rank) const { return program_.log(log_name(rank)); }
  // As they are written, by step.
  std::map<std::int64_t, double> losses() const {
    std::map<std::int64_t, double> losses;
    if (!std::filesystem::exists(program_.run_path("metrics.jsonl"))) return losses;
    std::istringstream lines(program_.file("metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json entry = Json::parse(line, nullptr, false);  // the last line may be torn
      if (entry.is_object() && entry["kind"] == "train") losses[entry["step"]] = entry["loss"];
    }
    return losses;
  }
  void wait_for_step(std::int64_t step) const {
    for (int tries = 0; tries < 1200; ++tries) {
      const auto seen = losses();
      if (!seen.empty() && seen.rbegin()->first >= step) return;
      usleep(50'000);
    }
    FAIL("step " << step << " was not reached:\n" << log(0));
  }

 private:
  static std::string log_name(int rank) { return fmt::format("log_{}", rank); }
  std::unique_ptr<Process> start_process(Flags command, const Flags& more,
                                         const std::string& log) const {
    command.insert(command.end(), flags_.begin(), flags_.end());
    command.insert(command.end(), more.begin(), more.end());
    return std::make_unique<Process>(command, program_.path(log));
  }

  test::TrainProgram program_;
  Flags flags_;
  std::vector<std::unique_ptr<Process>> processes_;
};

Flags to_step(int last, bool resume = false) {
  Flags flags{"--set", fmt::format("train.max_steps={}", last)};
  if (resume) flags.push_back("--resume");
  return flags;
}

const std::vector<int> kFine{0, 0};

}  // namespace

TEST_CASE("a job on two GPUs that was killed goes on with the bits of one that was not", "[simt]") {
  const std::string precision = GENERATE("float32", "bfloat16");
  Job whole(precision);
  whole.start(2, to_step(14));
  REQUIRE(whole.wait() == kFine);
  require_contains(whole.log(0), "ranks: 2");

  Job job(precision);
  job.start(2, to_step(14));
  job.wait_for_step(5);
  job.send(1, SIGKILL);
  REQUIRE(job.wait() == std::vector{6, 137});
  require_contains(job.log(0), "for rank 1; resume from the last checkpoint");
  job.start(2, to_step(14, true));
  REQUIRE(job.wait() == kFine);
  require_contains(job.log(0), "resuming");
  REQUIRE(job.losses() == whole.losses());
}

TEST_CASE("a signal to one GPU's rank ends and saves the job", "[simt]") {
  Job job("float32");
  job.start(2, to_step(100'000));
  job.wait_for_step(3);
  job.send(1, SIGTERM);
  REQUIRE(job.wait() == kFine);
  require_contains(job.log(0), "resume with:");
  require_contains(job.log(0), "(on every rank, as before)");
}

TEST_CASE("a job on two GPUs goes on with one", "[simt]") {
  Job job("float32");
  job.start(2, to_step(4));
  REQUIRE(job.wait() == kFine);
  job.start(1, to_step(6, true));
  REQUIRE(job.wait() == std::vector{0});
  REQUIRE(job.losses().size() == 6);
}

TEST_CASE("a rank on a GPU that hangs is named", "[simt]") {
  Job job("float32");
  Flags flags = to_step(100'000);
  flags.insert(flags.end(), {"--set", "parallel.timeout_seconds=2"});
  job.start(2, flags);
  job.wait_for_step(3);
  job.send(1, SIGSTOP);
  REQUIRE(job.wait_for(0) == 6);
  require_contains(job.log(0), "has waited 2 s for rank 1");
}

#ifdef MPIRUN
TEST_CASE("mpirun starts a job on two GPUs", "[simt]") {
  Job job("bfloat16");
  job.start_with_mpirun(MPIRUN, 2, to_step(4));
  const auto codes = job.wait();
  INFO(job.log(0));
  REQUIRE(codes == std::vector{0});
  Job other("bfloat16");
  other.start(2, to_step(4));
  REQUIRE(other.wait() == kFine);
  REQUIRE(job.losses() == other.losses());
}
#endif

}  // namespace flywheel
