#include "train/checkpoint.h"

#include <unistd.h>

#include "core/file_io.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/run_config.h"
#include "support/test_data.h"
#include "support/text.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::require_contains;

CheckpointConfig keeping(std::int64_t last, std::int64_t every) {
  CheckpointConfig config;
  config.keep_last = last;
  config.keep_every = every;
  return config;
}

class Fixture {
 public:
  explicit Fixture(const CheckpointConfig& config = {})
      : store(folder.path(), config), run_config(resolved(test::tiny_run(folder.path()))) {}

  void save(std::int64_t step, std::optional<double> loss = {}) {
    CheckpointState state;
    state.step = step;
    state.validation_loss = loss;
    state.config = run_config;
    store.save(state, [&](const fs::path& path) {
      write_file_atomically(path / "a.txt", "step " + std::to_string(step));
      write_file_atomically(path / "b.txt", std::string(1000, 'b'));
    });
  }
  fs::path latest() const { return fs::read_symlink(folder.path() / "latest"); }

  test::TemporaryFolder folder;
  CheckpointStore store;
  RunConfig run_config;
};

TEST_CASE("a saved checkpoint is whole and found again") {
  Fixture f;
  f.save(3);
  f.save(12);
  REQUIRE(f.store.steps() == std::vector<std::int64_t>{3, 12});
  REQUIRE(f.latest() == "step_00000012");
  std::vector<std::string> refused;
  const auto state = f.store.newest_valid(refused);
  REQUIRE(state->step == 12);
  REQUIRE(refused.empty());
  REQUIRE(state->files.size() == 2);
  REQUIRE(read_text_file(f.folder.path() / "latest" / "a.txt") == "step 12");
}

TEST_CASE("the newest are kept, and those asked for, and the best") {
  Fixture f(keeping(2, 40));
  const std::vector<double> losses{5, 4, 3, 3.5, 2, 2.5, 2.6, 2.7, 2.8, 2.9};
  for (int i = 1; i <= 10; ++i) f.save(10 * i, losses[i - 1]);
  REQUIRE(f.store.steps() == std::vector<std::int64_t>{40, 50, 80, 90, 100});
  REQUIRE(fs::read_symlink(f.folder.path() / "best") == "step_00000050");
}

TEST_CASE("a damaged checkpoint is refused by name and the one before it taken") {
  Fixture f(keeping(4, 0));
  for (int step = 1; step <= 4; ++step) f.save(step);
  const auto file = [&](int step, const char* name) { return f.store.path_of(step) / name; };
  fs::resize_file(file(4, "b.txt"), 999);
  std::string text = read_text_file(file(3, "b.txt"));
  text[500] = 'c';
  write_file_atomically(file(3, "b.txt"), text);
  fs::remove(file(2, "a.txt"));
  std::vector<std::string> refused;
  REQUIRE(f.store.newest_valid(refused)->step == 1);
  REQUIRE(refused.size() == 3);
  require_contains(refused[0], "step_00000004 is refused: ");
  require_contains(refused[0], "b.txt: has 999 bytes, expected 1000");
  require_contains(refused[1], "b.txt: damaged (checksum");
  require_contains(refused[2], "a.txt: missing");
  fs::remove(file(1, "state.json"));
  refused.clear();
  REQUIRE(!f.store.newest_valid(refused));
  require_contains(refused.back(), "state.json: cannot open");
}

TEST_CASE("a folder under another step's name is refused") {
  Fixture f;
  f.save(5);
  fs::rename(f.store.path_of(5), f.store.path_of(6));
  require_contains(error_of([&] { f.store.verify(6); }), "holds the state of step 5");
}

TEST_CASE("a failing save leaves no trace and the old checkpoint as it was") {
  Fixture f;
  f.save(1);
  CheckpointState state;
  state.step = 2;
  state.config = f.run_config;
  require_contains(error_of([&] {
                     f.store.save(state, [](const fs::path& folder) {
                       write_file_atomically(folder / "a", "x");
                       fail(ErrorKind::Io, "{}: no space", folder.string());
                     });
                   }),
                   "no space");
  REQUIRE(f.store.steps() == std::vector<std::int64_t>{1});
  REQUIRE(f.latest() == "step_00000001");
  for (const auto& entry : fs::directory_iterator(f.folder.path())) {
    REQUIRE(!entry.path().filename().string().starts_with(".tmp"));
  }
}

TEST_CASE("a damaged checkpoint is replaced when its step is reached again") {
  Fixture f;
  f.save(1);
  f.save(2);
  write_file_atomically(f.store.path_of(2) / "a.txt", "damaged");
  f.save(2);
  REQUIRE(f.store.verify(2).step == 2);
}

TEST_CASE("later checkpoints that were refused do not count among the newest") {
  Fixture f;
  for (const int step : {4, 8, 12}) f.save(step);
  fs::remove(f.store.path_of(12) / "a.txt");
  f.save(10);
  REQUIRE(f.store.steps() == std::vector<std::int64_t>{8, 10, 12});
  REQUIRE(f.latest() == "step_00000010");
  std::vector<std::string> refused;
  REQUIRE(f.store.newest_valid(refused)->step == 10);
}

TEST_CASE("leftovers of killed saves are removed, checkpoints are not") {
  Fixture f;
  f.save(1);
  fs::create_directory(f.folder.path() / ".tmp_step_00000002");
  write_file_atomically(f.folder.path() / ".tmp_step_00000002" / "a", "x");
  fs::create_directory(f.folder.path() / ".tmp_step_00000000_old");
  f.store.remove_leftovers();
  REQUIRE(!fs::exists(f.folder.path() / ".tmp_step_00000002"));
  REQUIRE(!fs::exists(f.folder.path() / ".tmp_step_00000000_old"));
  REQUIRE(f.store.steps() == std::vector<std::int64_t>{1});
  f.store.clear();
  REQUIRE(f.store.steps().empty());
  REQUIRE(!fs::is_symlink(f.folder.path() / "latest"));
}

TEST_CASE("foreign names are not checkpoints") {
  Fixture f;
  for (const char* name : {"step_1", "step_0000000x", "step_", "steps_00000001"}) {
    fs::create_directory(f.folder.path() / name);
  }
  REQUIRE(f.store.steps().empty());
}

}  // namespace
}  // namespace flywheel
