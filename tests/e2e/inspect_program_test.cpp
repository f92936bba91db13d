// The program `inspect` (INSPECT_PROGRAM) on what the other programs write, whole and with one byte
// damaged.

#include <string>

#include "core/json_fields.h"
#include "e2e/train_program.h"
#include "support/catch.h"
#include "support/inspection.h"
#include "support/run_command.h"
#include "support/text.h"

namespace flywheel::test {
namespace {

namespace fs = std::filesystem;

constexpr int kWhole = 0;
constexpr int kDamaged = 1;
constexpr int kUsage = 2;

CommandResult inspect_in(const fs::path& folder, const std::string& arguments) {
  return run_command(folder, std::string(INSPECT_PROGRAM) + " " + arguments);
}

// A run of the trainer, with checkpoints of steps 8 and 12, and beside it a tokenizer.
class Workshop {
 public:
  Workshop() {
    REQUIRE(program_.run({}) == 0);
    fs::create_directory(path("tokenizer"));
    fs::copy_file(golden("tokenizers/gpt2_style/tokenizer.json"), path("tokenizer/tokenizer.json"));
    write_file_atomically(path("notes.txt"), "hello");
  }
  fs::path path(const std::string& name) const { return program_.path(name); }
  CommandResult inspect(const std::string& arguments) const {
    return inspect_in(path(""), arguments);
  }

 private:
  TrainProgram program_;
};

struct Case {
  std::string path;     // what is inspected
  std::string says;     // of the whole one
  std::string damaged;  // file of which one byte is damaged
  std::int64_t offset;  // negative: from the end
};

TEST_CASE("every kind is described, and one damaged byte found") {
  const Workshop workshop;
  const std::string checkpoint = "run/step_00000012";
  const std::string weights = checkpoint + "/model.safetensors";
  const std::string tokenizer = "tokenizer/tokenizer.json";
  const std::vector<Case> cases{
      {"train_0.bin", "token file, whole", "train_0.bin", 200},
      {"train_0.bin", "largest token", "train_0.bin", 60},
      {checkpoint, "validation loss", weights, -1},
      {checkpoint, "optimizer.safetensors", checkpoint + "/state.json", 200},
      {"run/latest", "checkpoint, whole", checkpoint + "/config.json", 30},
      {"run", "resume takes", weights, -1},
      {weights, "safetensors file, whole", weights, -1},
      {weights, "model.embed_tokens.weight", weights, 8},
      {tokenizer, "443", tokenizer, 0},
      {"tokenizer", "byte-level BPE", tokenizer, 0},
      {"my.json", "model.layers", "my.json", 0},
  };
  for (const Case& c : cases) {
    INFO("inspect " << c.path << ", damaged: " << c.damaged << " at " << c.offset);
    const CommandResult whole = workshop.inspect(c.path);
    INFO(whole.output);
    CHECK(whole.exit_code == kWhole);
    CHECK(whole.output.find("fault:") == std::string::npos);
    CHECK(whole.output.find(c.says) != std::string::npos);

    damage_byte(workshop.path(c.damaged), c.offset);
    const CommandResult broken = workshop.inspect(c.path);
    damage_byte(workshop.path(c.damaged), c.offset);  // as it was
    INFO(broken.output);
    CHECK(broken.exit_code == kDamaged);
    CHECK(broken.output.find("NOT WHOLE") != std::string::npos);
    const std::string name = fs::path(c.damaged).filename().string();
    CHECK(broken.output.find("fault: ") != std::string::npos);
    CHECK(broken.output.find(name, broken.output.find("fault: ")) != std::string::npos);
  }
}

TEST_CASE("a damaged checkpoint does not hide the others, and JSON says the same") {
  const Workshop workshop;
  damage_byte(workshop.path("run/step_00000012/model.safetensors"), -1);
  const CommandResult result = workshop.inspect("--json run my.json");
  CAPTURE(result.output);
  REQUIRE(result.exit_code == kDamaged);
  const Json json = Json::parse(result.output);
  CHECK(json["whole"] == false);
  REQUIRE(json["inspected"].size() == 2);
  const Json& run = json["inspected"][0];
  CHECK(run["resume_takes"] == "step_00000008");
  CHECK(run["checkpoints"][0]["state"] == "whole");
  CHECK(run["checkpoints"][1]["state"] == "damaged");
  CHECK(run["faults"].size() == 1);
  CHECK(json["inspected"][1]["whole"] == true);
}

TEST_CASE("options show tokens of files and texts") {
  const Workshop workshop;
  require_contains(workshop.inspect("--show 3 train_0.bin").output, "256 ");
  require_contains(workshop.inspect("--show 3 --tokenizer byte train_0.bin").output,
                   "<|endoftext|>");
  const CommandResult result = workshop.inspect("--text ' the and' tokenizer byte");
  CHECK(result.exit_code == kWhole);
  require_contains(result.output, "262");
  require_contains(result.output, "269");
}

TEST_CASE("wrong usage has exit code 2, and known paths are still described") {
  const Workshop workshop;
  for (const std::string arguments :
       {"", "--sho 3 run", "--show -1 run", "absent.bin", "notes.txt"}) {
    const CommandResult result = workshop.inspect(arguments);
    CAPTURE(arguments, result.output);
    CHECK(result.exit_code == kUsage);
    CHECK(result.output.find("inspect: error: ") == 0);
  }
  const CommandResult result = workshop.inspect("notes.txt train_0.bin");
  CHECK(result.exit_code == kUsage);
  require_contains(result.output, "notes.txt: of no kind that is known; known are token files");
  require_contains(result.output, "train_0.bin: token file, whole");
  require_contains(workshop.inspect("--help").output, "Examples:");
}

}  // namespace
}  // namespace flywheel::test
