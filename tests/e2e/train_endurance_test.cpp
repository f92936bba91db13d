#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "e2e/train_program.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/text.h"
#include "train/checkpoint.h"
#include "train/factory.h"
#include "train/trainer.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;
using test::require_contains;
using test::TrainProgram;

std::int64_t resident_bytes() {
  std::ifstream statistics("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statistics >> size >> resident;
  return resident * 4096;
}

TEST_CASE("memory stays flat over a long run") {
  const test::TemporaryFolder folder;
  RunConfig config = test::tiny_run(folder.path());
  config.train.max_steps = 2000;
  config.data.document_mask = true;
  config = resolved(config);
  const auto backend = make_backend(config.train);
  Trainer trainer(config, *backend);
  CheckpointStore store(folder.path() / "run", config.checkpoint);
  fs::create_directory(store.run_folder());
  std::int64_t early = 0;
  while (trainer.steps_taken() < 2000) {
    trainer.step();
    if (trainer.steps_taken() % 50 == 0) {
      trainer.validate();
      store.save(trainer.state(), [&](const fs::path& path) { trainer.write_files(path); });
    }
    if (trainer.steps_taken() == 100) early = resident_bytes();
  }
  const std::int64_t late = resident_bytes();
  CAPTURE(early, late);
  REQUIRE(late - early < 256 * 1024);
}

// A small file system that is unmounted with the object.
class SmallDisk {
 public:
  SmallDisk(const fs::path& path, const std::string& size) : path_(path) {
    fs::create_directories(path);
    mounted_ = mount("tmpfs", path.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
    if (!mounted_) WARN("skipped: cannot mount a small file system: " << std::strerror(errno));
  }
  ~SmallDisk() {
    if (mounted_) umount(path_.c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  void resize(const std::string& size) const {
    REQUIRE(mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, ("size=" + size).c_str()) == 0);
  }

 private:
  fs::path path_;
  bool mounted_ = false;
};

std::int64_t bytes_of_folder(const fs::path& folder) {
  std::int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    bytes += (static_cast<std::int64_t>(entry.file_size()) + 4095) / 4096 * 4096;
  }
  return bytes;
}

// Two checkpoints fit; the disk is full while the third is written.
TEST_CASE("a full disk loses nothing") {
  const std::vector<std::string> arguments{"--set", "train.max_steps=20"};
  const TrainProgram whole;
  REQUIRE(whole.run(arguments) == 0);
  const std::int64_t checkpoint = bytes_of_folder(whole.run_path("latest"));

  const TrainProgram program;
  const SmallDisk disk(program.path("run"), std::to_string(checkpoint * 5 / 2));
  if (!disk.mounted()) return;
  const CheckpointStore store(program.path("run"), {});
  const auto require_intact = [&] {
    REQUIRE(store.steps() == std::vector<std::int64_t>{4, 8});
    REQUIRE(store.verify(8).step == 8);
    REQUIRE(fs::read_symlink(program.run_path("latest")) == "step_00000008");
    for (const auto& entry : fs::directory_iterator(program.path("run"))) {
      REQUIRE(!entry.path().filename().string().starts_with(".tmp"));
    }
  };
  // Checkpoints on the way may be left out, the last one may not.
  REQUIRE(program.run(arguments) == 4);
  require_contains(program.log(), "no checkpoint of step 12, training goes on: ");
  require_contains(program.log(), "step 20/20");
  require_contains(program.log(),
                   "train: error: " + program.run_path(".tmp_step_00000020").string());
  require_contains(program.log(), "No space left on device");
  require_intact();

  auto resume = arguments;
  resume.insert(resume.end(), {"--resume", "--set", "checkpoint.on_write_failure=stop"});
  REQUIRE(program.run(resume) == 4);
  require_contains(program.log(),
                   "train: error: " + program.run_path(".tmp_step_00000012").string());
  require_intact();

  disk.resize("16m");
  REQUIRE(program.run(resume) == 0);
  const std::string model = "step_00000020/model.safetensors";
  REQUIRE((program.file(model) == whole.file(model)));
}

}  // namespace
}  // namespace flywheel
