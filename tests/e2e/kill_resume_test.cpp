// Kills a run at random moments, saves included, and resumes it until it is through: its weights
// must be those of a run that was never stopped. FLYWHEEL_KILLS sets the number of kills (default
// 5).

#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/philox.h"
#include "e2e/train_program.h"
#include "support/catch.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;
using test::TrainProgram;

constexpr const char* kModel = "step_00000060/model.safetensors";
constexpr const char* kOptimizer = "step_00000060/optimizer.safetensors";

int wanted_kills() {
  const char* text = std::getenv("FLYWHEEL_KILLS");
  return text ? std::atoi(text) : 5;
}

TEST_CASE("a run killed at any moment ends in the same bits") {
  const std::vector<std::string> arguments{"--resume", "--set", "train.max_steps=60", "--set",
                                           "checkpoint.every=1"};
  const TrainProgram whole;
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(whole.run(arguments) == 0);
  const double whole_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  const RandomSequence random(20240607, RandomStream::kSampling);
  const int kills = wanted_kills();
  std::uint64_t starts = 0;
  int killed = 0;
  int during_saves = 0;
  for (int round = 0; killed < kills; ++round) {
    const TrainProgram program;
    while (true) {
      auto process = program.start(arguments);
      if (killed < kills) {
        // A new moment for each start: one that a run has passed may be too late for all others.
        const double share = random.uniform(starts++);
        std::this_thread::sleep_for(std::chrono::duration<double>(0.5 * share * whole_seconds));
        process.send(SIGKILL);
      }
      const int code = process.wait();
      if (code == 128 + SIGKILL) {
        ++killed;
        std::error_code not_yet;  // it may have died before it made the folder
        for (const auto& entry : fs::directory_iterator(program.path("run"), not_yet)) {
          during_saves += entry.path().filename().string().starts_with(".tmp_") ? 1 : 0;
        }
        continue;
      }
      INFO(program.log());
      REQUIRE(code == 0);
      REQUIRE(program.log().find("refused") == std::string::npos);
      break;
    }
    CAPTURE(round, killed);
    REQUIRE((program.file(kModel) == whole.file(kModel)));
    REQUIRE((program.file(kOptimizer) == whole.file(kOptimizer)));
  }
  WARN(killed << " kills, " << during_saves << " of them during a save");
}

}  // namespace
}  // namespace flywheel
