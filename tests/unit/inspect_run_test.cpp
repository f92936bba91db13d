#include "core/json_fields.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/inspection.h"
#include "support/run_config.h"
#include "support/test_data.h"
#include "support/text.h"
#include "train/checkpoint.h"
#include "train/inspect.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;
using test::damage_byte;
using test::error_of;
using test::fact;
using test::joined_faults;
using test::require_contains;
using Integer = std::int64_t;

// A run's folder with checkpoints of steps 4, 8 and 12, of which 8 is the best.
class RunFixture {
 public:
  RunFixture() : store(folder.path(), keeping_three()) {
    config = resolved(test::tiny_run(folder.path()));
    write_file_atomically(folder.path() / "config.json", run_config_to_json(config));
    save(4, 3.5);
    save(8, 2.5);
    save(12, 3.0);
  }

  Inspection inspected() const { return inspect_run(folder.path()); }
  fs::path path(const std::string& name) const { return folder.path() / name; }

  test::TemporaryFolder folder;
  CheckpointStore store;
  RunConfig config;

 private:
  static CheckpointConfig keeping_three() {
    CheckpointConfig config;
    config.keep_last = 3;
    return config;
  }
  void save(std::int64_t step, double loss) {
    CheckpointState state;
    state.step = step;
    state.tokens = step * 256;
    state.data_windows = step * 8;
    state.validation_loss = loss;
    state.config = config;
    store.save(state, [](const fs::path& temporary) {
      write_file_atomically(temporary / "a.txt", "some weights");
      write_file_atomically(temporary / "b.txt", "some moments");
    });
  }
};

std::string state_of(const Inspection& run, std::size_t row) {
  return std::get<std::string>(run.tables.at(0).rows.at(row).back());
}

// What --resume would take, by the trainer's own rule.
std::string resume_of(const RunFixture& f) {
  std::vector<std::string> refused;
  const auto state = f.store.newest_valid(refused);
  return state ? f.store.path_of(state->step).filename().string() : "nothing";
}

TEST_CASE("a checkpoint is described") {
  const RunFixture f;
  const Inspection seen = inspect_checkpoint(f.path("step_00000008"));
  CHECK(joined_faults(seen).empty());
  CHECK(fact(seen, "step") == InspectedValue(Integer{8}));
  CHECK(fact(seen, "tokens") == InspectedValue(Integer{2048}));
  CHECK(fact(seen, "data_windows") == InspectedValue(Integer{64}));
  CHECK(fact(seen, "validation_loss") == InspectedValue(2.5));
  const auto cost = Transformer::cost(f.config.model, f.config.data.sequence_length);
  CHECK(fact(seen, "parameters") == InspectedValue(cost.parameters));
  require_contains(std::get<std::string>(fact(seen, "model")),
                   "flywheel: 2 layers of width 16, 2 heads of 8 (2 for keys and values), MLP 32, "
                   "vocabulary 257, attention sa_swa, sa in turn, window 8");
  REQUIRE(seen.tables.size() == 1);
  CHECK(seen.tables[0].rows.size() == 3);
  CHECK(seen.tables[0].rows[0] ==
        std::vector<InspectedValue>{"a.txt", Integer{12}, "12 B", "verified"});
}

TEST_CASE("every damaged file of a checkpoint is named") {
  const RunFixture f;
  const fs::path folder = f.path("step_00000008");
  damage_byte(folder / "a.txt", 0);
  fs::remove(folder / "b.txt");
  const Inspection seen = inspect_checkpoint(folder);
  REQUIRE(seen.faults.size() == 2);
  require_contains(seen.faults[0], "step_00000008/a.txt: damaged");
  require_contains(seen.faults[1], "step_00000008/b.txt: missing");
  CHECK(fact(seen, "step") == InspectedValue(Integer{8}));
}

TEST_CASE("a checkpoint without a readable state is described as far as it goes") {
  const RunFixture f;
  const fs::path folder = f.path("step_00000008");
  damage_byte(folder / "state.json", -20);
  const Inspection seen = inspect_checkpoint(folder);
  require_contains(joined_faults(seen), "step_00000008/state.json");
  REQUIRE(seen.tables.size() == 1);
  CHECK(seen.tables[0].rows.size() == 3);
  fs::remove(folder / "state.json");
  require_contains(joined_faults(inspect(folder.string(), {}).at(0)), "state.json");
}

TEST_CASE("a checkpoint under the name of another step is not whole, a renamed copy is") {
  const RunFixture f;
  fs::rename(f.path("step_00000004"), f.path("copy"));
  CHECK(inspect_checkpoint(f.path("copy")).whole());
  fs::rename(f.path("copy"), f.path("step_00000005"));
  require_contains(joined_faults(inspect_checkpoint(f.path("step_00000005"))),
                   "step_00000005: holds the state of step 4");
}

TEST_CASE("a file of a checkpoint is held against the checkpoint's checksums") {
  const RunFixture f;
  const fs::path folder = f.path("step_00000008");
  write_file_atomically(folder / "a.txt", "{} wrong size");
  const Inspection seen = inspect((folder / "a.txt").string(), {}).at(0);
  require_contains(joined_faults(seen), "a.txt: has 13 bytes, expected 12");
}

TEST_CASE("a run lists its checkpoints and the one that a resume takes") {
  const RunFixture f;
  Inspection run = f.inspected();
  CHECK(joined_faults(run).empty());
  REQUIRE(run.tables.at(0).rows.size() == 3);
  std::vector<InspectedValue> best = run.tables[0].rows[1];
  best.erase(best.begin() + 5);  // the size
  CHECK(best == std::vector<InspectedValue>{"step_00000008", "best", Integer{8}, Integer{2048}, 2.5,
                                            "whole"});
  CHECK(run.tables[0].rows[2][1] == InspectedValue("latest"));
  CHECK(fact(run, "resume_takes") == InspectedValue("step_00000012"));

  for (const char* name : {"step_00000012", "step_00000008", "step_00000004"}) {
    damage_byte(f.path(name) / "b.txt", 3);
    run = f.inspected();
    require_contains(joined_faults(run), std::string(name) + "/b.txt: damaged");
    CHECK(fact(run, "resume_takes") == InspectedValue(resume_of(f)));
  }
  CHECK(fact(run, "resume_takes") == InspectedValue("nothing"));
  for (std::size_t row = 0; row < 3; ++row) CHECK(state_of(run, row) == "damaged");
}

TEST_CASE("a run's config shows what is not the default") {
  const Inspection seen = inspect("configs/demo.json", {}).at(0);
  CHECK(joined_faults(seen).empty());
  CHECK(seen.kind == "run config");
  const std::string text = to_text(seen);
  require_contains(text, "model.layers");
  require_contains(text, "schedule.warmup_steps");
  CHECK(!test::contains(text, "model.norm_eps"));
  CHECK(std::get<Integer>(fact(seen, "parameters")) > 200000);
}

TEST_CASE("a wrong config has the trainer's errors, one a line") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "my.json";
  write_file_atomically(path, R"({"model": {"layer": 2}, "train": {"max_steps": 0}})");
  const Inspection seen = inspect(path.string(), {}).at(0);
  CHECK(seen.faults.size() > 2);
  CHECK("config: " + joined_faults(seen) == error_of([&] { load_run_config(path, {}); }) + "\n");
  write_file_atomically(path, "{\"model\": {");
  require_contains(joined_faults(inspect(path.string(), {}).at(0)), "not valid JSON");
}

TEST_CASE("JSON has every fact, table and fault") {
  const RunFixture f;
  damage_byte(f.path("step_00000012") / "a.txt", 0);
  const std::vector<Inspection> all{inspect_checkpoint(f.path("step_00000004")), f.inspected()};
  const Json json = Json::parse(to_json(all));
  CHECK(json["whole"] == false);
  REQUIRE(json["inspected"].size() == 2);
  const Json& checkpoint = json["inspected"][0];
  CHECK(checkpoint["kind"] == "checkpoint");
  CHECK(checkpoint["whole"] == true);
  CHECK(checkpoint["step"] == 4);
  CHECK(checkpoint["files"][1]["name"] == "b.txt");
  const Json& run = json["inspected"][1];
  CHECK(run["whole"] == false);
  CHECK(run["faults"].size() == 1);
  CHECK(run["checkpoints"][2]["state"] == "damaged");
  CHECK(run["resume_takes"] == "step_00000008");
}

}  // namespace
TEST_CASE("models of other programs are described, and their faults named", "[inspect]") {
  const auto first = [](const std::string& path) { return inspect(path, {}).front(); };
  for (const auto& [name, kind] :
       {std::pair{"llama.gguf", "GGUF file"}, std::pair{"qwen3_moe", "Hugging Face folder"}}) {
    const Inspection inspection = first(test::golden("models") / name);
    REQUIRE(inspection.kind == kind);
    REQUIRE(inspection.whole());
    REQUIRE(test::contains(to_text(inspection), "2 layers of width 32"));
    REQUIRE(test::contains(to_text(inspection), "model.layers.1.self_attn.q_proj.weight"));
  }
  const test::TemporaryFolder folder;
  const auto cut = folder.path() / "cut.gguf";
  std::filesystem::copy_file(test::golden("models/llama.gguf"), cut);
  std::filesystem::resize_file(cut, 500);
  REQUIRE(!first(cut).whole());
  REQUIRE(test::contains(first(cut).faults.front(), "cut.gguf: "));
}

}  // namespace flywheel
