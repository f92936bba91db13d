#include "e2e/train_program.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "core/json_fields.h"
#include "support/catch.h"
#include "support/text.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;
using test::require_contains;
using test::TrainProgram;

constexpr const char* kModel = "step_00000012/model.safetensors";

void wait_for(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::vector<std::int64_t> steps_in_metrics(const TrainProgram& program, const std::string& kind) {
  std::vector<std::int64_t> steps;
  const std::string text = program.file("metrics.jsonl");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const Json line = Json::parse(text.substr(begin, end - begin));
    if (line["kind"] == kind) steps.push_back(line["step"]);
    begin = end + 1;
  }
  return steps;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("a run trains, validates, saves and reports") {
  const TrainProgram program;
  REQUIRE(program.run({"--set", "train.log_every=3", "--set", "log.tensorboard=true"}) == 0);
  const std::string log = program.log();
  for (const char* part :
       {"* model.layers", "model.layers.*.mlp.up_proj.weight", "optimizer moments", "FLOPs a token",
        "step 1/12  loss 5.", "step 12/12  loss ", "tok/s  MFU ", "step 8  validation loss ",
        "finished: 12 steps"}) {
    require_contains(log, part);
  }
  REQUIRE(log.find('\x1b') == std::string::npos);
  REQUIRE(log.find('\r') == std::string::npos);
  REQUIRE(steps_in_metrics(program, "train") == std::vector<std::int64_t>{1, 3, 6, 9, 12});
  REQUIRE(steps_in_metrics(program, "validation") == std::vector<std::int64_t>{4, 8, 12});
  const auto names = names_in(program.path("run"));
  REQUIRE(names.size() == 7);
  REQUIRE(names[0] == "best");
  REQUIRE(names[1] == "config.json");
  REQUIRE(names[2].starts_with("events.out.tfevents."));
  REQUIRE(fs::read_symlink(program.run_path("latest")) == "step_00000012");
  REQUIRE(names_in(program.run_path("latest")) ==
          std::vector<std::string>{"config.json", "model.safetensors", "optimizer.safetensors",
                                   "state.json"});
}

TEST_CASE("a dry run shows the tables and writes nothing") {
  const TrainProgram program;
  const auto before = names_in(program.path("."));
  REQUIRE(program.run({"--dry-run"}) == 0);
  require_contains(program.log(), "FLOPs a token");
  require_contains(program.log(), "total");
  auto after = names_in(program.path("."));
  std::erase(after, "log");
  REQUIRE(after == before);
  REQUIRE(program.run({"--dry-run", "--set", "data.train.0.files=nowhere*.bin"}) == 0);
  require_contains(program.log(), "the run cannot start yet: ");
}

TEST_CASE("a run that holds checkpoints is neither continued nor overwritten unasked") {
  const TrainProgram program;
  REQUIRE(program.run({"--set", "train.max_steps=4"}) == 0);
  const std::string model = program.file("latest/model.safetensors");
  REQUIRE(program.run({}) == 2);
  require_contains(program.log(), "holds checkpoints (the newest of step 4); --resume");
  REQUIRE(program.file("latest/model.safetensors") == model);
  REQUIRE(program.run({"--resume", "--overwrite"}) == 2);
  REQUIRE(program.run({"--resume"}) == 0);
  require_contains(program.log(), "after step 4");
  require_contains(program.log(), "changed value: train.max_steps: 4 in the checkpoint, now 12");
  REQUIRE(program.run({"--resume"}) == 0);
  require_contains(program.log(), "finished: 12 steps");
  REQUIRE(program.run({"--overwrite", "--set", "train.max_steps=2"}) == 0);
  REQUIRE(fs::read_symlink(program.run_path("latest")) == "step_00000002");
  REQUIRE(!fs::exists(program.run_path("step_00000012")));
  REQUIRE(steps_in_metrics(program, "train") == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("an interrupted run saves, says how to resume, and loses no bit") {
  const std::vector<std::string> arguments{
      "--set", "train.max_steps=150", "--set", "train.log_every=1", "--set", "checkpoint.every=0"};
  const std::string last = "step_00000150/";
  const TrainProgram whole;
  REQUIRE(whole.run(arguments) == 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    const TrainProgram program;
    auto process = program.start(arguments);
    wait_for([&] { return program.log().find("step 2/150") != std::string::npos; });
    process.send(signal);
    REQUIRE(process.wait() == 0);
    const std::string log = program.log();
    require_contains(log, signal == SIGINT ? "SIGINT: saving after" : "SIGTERM: saving after");
    std::string command =
        std::string(TRAIN_PROGRAM) + " --config " + program.config_path().string();
    for (const std::string& argument : arguments) command += " " + argument;
    require_contains(log, "resume with:\n  " + command + " --resume\n");
    auto resume = arguments;
    resume.emplace_back("--resume");
    REQUIRE(program.run(resume) == 0);
    REQUIRE((program.file(last + "model.safetensors") == whole.file(last + "model.safetensors")));
    REQUIRE((program.file(last + "optimizer.safetensors") ==
             whole.file(last + "optimizer.safetensors")));
    REQUIRE(steps_in_metrics(program, "train") == steps_in_metrics(whole, "train"));
    REQUIRE(steps_in_metrics(program, "train").size() == 150);
  }
}

TEST_CASE("a damaged checkpoint is refused with its reason and the one before it taken") {
  const TrainProgram program;
  REQUIRE(program.run({}) == 0);
  const std::string model = program.file(kModel);
  std::string damaged = model;
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
  write_file_atomically(program.run_path(kModel), damaged);
  REQUIRE(program.run({"--resume"}) == 0);
  require_contains(program.log(), "checkpoint step_00000012 is refused: ");
  require_contains(program.log(), "model.safetensors: damaged (checksum ");
  require_contains(program.log(), "taking the checkpoint of step 8");
  REQUIRE((program.file(kModel) == model));
  for (const char* step : {"step_00000008", "step_00000012"}) {
    fs::resize_file(program.run_path(step) / "state.json", 100);
  }
  const auto before = names_in(program.path("run"));
  REQUIRE(program.run({"--resume"}) == 3);
  require_contains(program.log(), "no checkpoint is valid (checkpoint step_00000012 is refused: ");
  REQUIRE(names_in(program.path("run")) == before);
}

TEST_CASE("what may not change on resumption is refused with both values") {
  const TrainProgram program;
  REQUIRE(program.run({"--set", "train.max_steps=4"}) == 0);
  REQUIRE(program.run({"--resume", "--set", "model.layers=3"}) == 2);
  require_contains(program.log(), "model.layers: 2 in the checkpoint, now 3");
  test::write_byte_shard(program.path("train_0.bin"), 9, 7, 90);
  REQUIRE(program.run({"--resume"}) == 3);
  require_contains(program.log(), "not those that the run began with (fingerprint ");
}

TEST_CASE("a shard that was altered in place is noticed") {
  const TrainProgram program;
  REQUIRE(program.run({"--set", "train.max_steps=4"}) == 0);
  std::string shard = read_text_file(program.path("train_1.bin"));
  shard[shard.size() / 2] = static_cast<char>(shard[shard.size() / 2] ^ 1);
  write_file_atomically(program.path("train_1.bin"), shard);
  REQUIRE(program.run({"--resume"}) == 3);
  REQUIRE(program.run({"--overwrite"}) == 3);
  require_contains(program.log(), "train_1.bin: damaged");
  REQUIRE(fs::read_symlink(program.run_path("latest")) == "step_00000004");
}

TEST_CASE("a model with moba trains, with the same bits on any number of threads") {
  const TrainProgram one;
  const TrainProgram two;
  const std::vector<std::string> moba{"--set", R"(model.attention.pattern=["moba"])", "--set",
                                      "model.attention.window=4"};
  const auto run = [&](const TrainProgram& program, const std::string& threads) {
    std::vector<std::string> arguments = moba;
    arguments.insert(arguments.end(), {"--set", "train.threads=" + threads});
    REQUIRE(program.run(arguments) == 0);
    require_contains(program.log(), "finished: 12 steps");
  };
  run(one, "1");
  run(two, "2");
  REQUIRE(one.file(kModel) == two.file(kModel));
}

TEST_CASE("user faults end with one line and a code, before anything is written") {
  const TrainProgram program;
  struct Fault {
    std::vector<std::string> arguments;
    int code;
    const char* text;
  };
  const std::vector<Fault> faults{
      {{"--set", "train.max_step=3"}, 2, "train.max_step: unknown key; did you mean 'max_steps'?"},
      {{"--set", "data.tokenizer=/nowhere"}, 3, "/nowhere"},
      {{"--set", R"(model.attention.pattern=["mob"])"}, 2, "model.attention.pattern"},
      {{"--set", "data.train.0.files=/nowhere.bin"}, 3, "/nowhere.bin"},
      {{"--set", "data.sequence_length=16", "--set", "train.global_batch_tokens=100"},
       2,
       "multiple"},
      {{"--frobnicate"}, 2, "frobnicate"},
      {{"extra"}, 2, "unexpected argument 'extra'"},
      {{"--set", "checkpoint.folder=/proc/nowhere"}, 4, "/proc/nowhere"}};
  for (const Fault& fault : faults) {
    const int code = program.run(fault.arguments);
    const std::string log = program.log();
    INFO(log);
    REQUIRE(code == fault.code);
    require_contains(log, "train: error: ");
    require_contains(log, fault.text);
    REQUIRE(!fs::exists(program.run_path("config.json")));
  }
}

TEST_CASE("a GPU that is not there ends a run with one line and a code") {
  const TrainProgram program;
  const int code = program.run({"--set", "train.device=cuda"});
  if (code == 0) return;  // there is one
  INFO(program.log());
  REQUIRE(code == 5);
  require_contains(program.log(), "train: error: train.device: cuda: this ");
  REQUIRE(!fs::exists(program.run_path("config.json")));
  // A plan of the run needs none.
  REQUIRE(program.run({"--dry-run", "--set", "train.device=cuda"}) == 0);
  require_contains(program.log(), "workspaces of CUDA kernels");
  require_contains(program.log(), "the run cannot start here: train.device: cuda: this ");
}

TEST_CASE("a diverging run stops before its weights are spoilt") {
  const TrainProgram program;
  const std::vector<std::string> hot{"--set", "optimizer.learning_rate=1e30",
                                     "--set", "schedule.warmup_steps=0",
                                     "--set", "checkpoint.every=1"};
  REQUIRE(program.run(hot) == 3);
  require_contains(program.log(), "train: error: step 2: the loss is ");
  require_contains(program.log(), "Lower optimizer.learning_rate, or set train.non_finite=skip");
  REQUIRE(fs::read_symlink(program.run_path("latest")) == "step_00000001");
  auto skipping = hot;
  skipping.insert(skipping.end(), {"--resume", "--set", "train.non_finite=skip"});
  REQUIRE(program.run(skipping) == 0);
  require_contains(program.log(), "the update is skipped (11 so far)");
}

TEST_CASE("two processes do not share a run's folder") {
  const TrainProgram program;
  auto process = program.start({"--set", "train.max_steps=100000"});
  wait_for([&] { return fs::exists(program.run_path("config.json")); });
  REQUIRE(program.run({}, "log2") == 2);
  require_contains(program.log("log2"), "another process is training into this folder");
}

TEST_CASE("help and version") {
  const TrainProgram program;
  REQUIRE(program.run({"--help"}) == 0);
  require_contains(program.log(), "train --config configs/demo.json --dry-run");
  REQUIRE(program.run({"--version"}) == 0);
  require_contains(program.log(), "flywheel 0.");
}

}  // namespace
}  // namespace flywheel
