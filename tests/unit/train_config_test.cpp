#include "train/train_config.h"

#include "core/file_io.h"
#include "core/json_fields.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/run_config.h"
#include "support/test_data.h"
#include "support/text.h"
#include "train/checkpoint_state.h"
#include "train/schedule.h"

namespace flywheel {
namespace {

using test::error_of;
using test::require_contains;

constexpr const char* kSmallest =
    R"({"data": {"train": [{"files": "x.bin"}]}, "train": {"max_steps": 500}})";

RunConfig load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.path() / "my.json", text);
  return load_run_config(folder.path() / "my.json", overrides);
}

TEST_CASE("the smallest config is resolved to a whole run") {
  const RunConfig config = load(kSmallest);
  REQUIRE(config.checkpoint.folder == "runs/my");
  REQUIRE(config.schedule.warmup_steps == 10);
  REQUIRE(config.batch_sequences() == 64);
  REQUIRE(config.train.micro_batch_sequences == 8);
  REQUIRE(config.model.kv_heads == 12);
  REQUIRE(config.model.head_dim == 64);
}

TEST_CASE("a resolved config resolves to itself") {
  const RunConfig config = load(kSmallest, {"schedule.warmup_tokens=100000"});
  REQUIRE(config.schedule.warmup_steps == 2);
  REQUIRE(run_config_to_json(load(run_config_to_json(config))) == run_config_to_json(config));
}

TEST_CASE("tokens become steps, rounded up") {
  const RunConfig config = load(R"({"data": {"train": [{"files": "x"}]}})",
                                {"train.max_tokens=65537", "train.global_batch_tokens=65536"});
  REQUIRE(config.train.max_steps == 2);
  REQUIRE(!config.train.max_tokens);
}

TEST_CASE("every fault of a config is reported, with its path") {
  const std::string text = error_of([] {
    load(
        R"({"model": {"heads": 7}, "data": {"sequence_length": 4096, "train": [{"files": [], "weight": 0}]},
             "optimizer": {"beta2": 1, "learning_rate": -1}, "schedule": {"warmup_steps": 1, "warmup_tokens": 2},
             "train": {"global_batch_tokens": 5000, "max_steps": 0, "device": "gpu"},
             "checkpoint": {"keep_last": 1}, "lg": {}})");
  });
  require_contains(text, "config: ");
  for (const char* part :
       {"model.hea", "data.sequence_length: 4096 is more than model.max_positions, 2048",
        "data.train.0.files: expected at least one file",
        "data.train.0.weight: expected more than 0",
        "optimizer.beta2: expected 0 to 0.9999999, got 1", "optimizer.learning_rate",
        "schedule.warmup_tokens: give this or warmup_steps",
        "train.global_batch_tokens: expected a multiple of data.sequence_length, 4096; nearest is "
        "4096",
        "train.max_steps: expected 1 to", "train.device: expected one of 'cpu', 'cuda'",
        "checkpoint.keep_last: expected 2 to", "lg: unknown key; did you mean 'log'?"}) {
    require_contains(text, part);
  }
  require_contains(error_of([] { load("{}"); }), "train.max_steps: expected this or max_tokens");
  const std::string untrainable = error_of([] { load(R"({"model": {"experts": {"count": 8}}})"); });
  require_contains(untrainable, "model.experts.count: a mixture of experts cannot be trained");
  require_contains(error_of([] { load(kSmallest, {"train.max_tokens=5"}); }), "not both");
  require_contains(error_of([] { load(kSmallest, {"train.micro_batch_sequences=7"}); }),
                   "expected a divisor of the 64 sequences");
  require_contains(error_of([] { load(kSmallest, {"train.precision=bfloat16"}); }),
                   "train.precision: the CPU computes in float32");
  require_contains(error_of([] {
                     load(kSmallest, {"train.device=cuda", "model.head_dim=264"});
                   }),
                   "model.head_dim: 264; expected up to 256 with train.device cuda");
}

TEST_CASE("the example of a schema validates what the reader accepts") {
  const Json schema = Json::parse(run_config_schema());
  REQUIRE(schema["properties"]["train"]["properties"].contains("max_steps"));
  REQUIRE(
      schema["properties"]["model"]["properties"]["attention"]["properties"].contains("window"));
}

TEST_CASE("docs/training.md states every key with its type, default and meaning") {
  const std::string docs = read_text_file("docs/training.md");
  for (const FieldRow& row : reference_rows(Json::parse(run_config_schema()))) {
    const std::string line =
        fmt::format("| `{}` | {} | `{}` | {} |", row.path, row.type, row.defaults, row.help);
    require_contains(docs, line);
  }
}

RunConfig scheduled(ScheduleKind kind) {
  RunConfig config;
  config.optimizer.learning_rate = 2.0;
  config.schedule = {kind, 10, {}, 0.1, 0.25};
  config.train.max_steps = 110;
  return config;
}

TEST_CASE("schedules warm up, then fall to their end") {
  for (const ScheduleKind kind :
       {ScheduleKind::Cosine, ScheduleKind::Linear, ScheduleKind::Wsd, ScheduleKind::Constant}) {
    const Schedule schedule(scheduled(kind));
    REQUIRE(schedule.learning_rate(1) == Approx(0.2));
    REQUIRE(schedule.learning_rate(10) == 2.0);
    const double end = kind == ScheduleKind::Constant ? 2.0 : 0.2;
    REQUIRE(schedule.learning_rate(110) == Approx(end));
    REQUIRE(schedule.learning_rate(500) == Approx(end));
    for (std::int64_t step = 11; step <= 110; ++step) {
      REQUIRE(schedule.learning_rate(step) <= schedule.learning_rate(step - 1));
    }
  }
  REQUIRE(Schedule(scheduled(ScheduleKind::Cosine)).learning_rate(60) == Approx(1.1));
  REQUIRE(Schedule(scheduled(ScheduleKind::Linear)).learning_rate(35) == Approx(2.0 * 0.775));
  const Schedule wsd(scheduled(ScheduleKind::Wsd));
  REQUIRE(wsd.learning_rate(82) == 2.0);
  REQUIRE(wsd.learning_rate(96) == Approx(1.1));
  RunConfig cold = scheduled(ScheduleKind::Cosine);
  cold.schedule.warmup_steps = 0;
  REQUIRE(Schedule(cold).learning_rate(1) == Approx(2.0).epsilon(1e-3));
}

TEST_CASE("what may change between a checkpoint and its resumption") {
  const test::TemporaryFolder folder;
  const RunConfig before = resolved(test::tiny_run(folder.path()));
  RunConfig now = before;
  now.train.threads = 2;
  now.train.micro_batch_sequences = 2;
  now.train.log_every = 7;
  now.log.tensorboard = true;
  now.checkpoint.every = 3;
  now.data.train[0].files = {"elsewhere"};
  REQUIRE(compare_configs(before, now).refused.empty());
  REQUIRE(compare_configs(before, now).noted.empty());
  now.train.max_steps = 20;
  now.optimizer.learning_rate = 1;
  now.train.device = DeviceChoice::Cuda;
  now.train.precision = Precision::Bfloat16;
  REQUIRE(compare_configs(before, now).refused.empty());
  REQUIRE(
      compare_configs(before, now).noted ==
      std::vector<std::string>{"optimizer.learning_rate: 0.01 in the checkpoint, now 1.0",
                               R"(train.device: "cpu" in the checkpoint, now "cuda")",
                               "train.max_steps: 12 in the checkpoint, now 20",
                               R"(train.precision: "float32" in the checkpoint, now "bfloat16")"});
  now.model.layers = 3;
  now.data.seed = 5;
  now.data.train[0].weight = 2;
  REQUIRE(compare_configs(before, now).refused ==
          std::vector<std::string>{"data.seed: 0 in the checkpoint, now 5",
                                   "data.train.0.weight: 1.0 in the checkpoint, now 2.0",
                                   "model.layers: 2 in the checkpoint, now 3"});
}

TEST_CASE("a state survives the way through its file and is refused once altered") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "state.json";
  CheckpointState state;
  state.version = "0.1.0";
  state.step = 42;
  state.data_windows = 5'000'000'000;
  state.validation_loss = 3.25;
  state.files = {{"a", 3, "00"}};
  state.config = resolved(test::tiny_run(folder.path()));
  const std::string text = state_to_json(state);
  write_file_atomically(path, text);
  REQUIRE(state_to_json(read_state(path)) == text);
  std::string altered = text;
  altered.replace(altered.find("\"step\": 42"), 10, "\"step\": 43");
  write_file_atomically(path, altered);
  require_contains(error_of([&] { read_state(path); }), "data: " + path.string() + ": damaged");
  write_file_atomically(path, text.substr(0, text.size() / 2));
  require_contains(error_of([&] { read_state(path); }), "not valid JSON");
  write_file_atomically(path, "{}");
  require_contains(error_of([&] { read_state(path); }), "has no checksum");
}

}  // namespace
}  // namespace flywheel
