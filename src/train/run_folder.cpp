#include "train/run_folder.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/file_io.h"

namespace flywheel {
namespace {

int lock_folder(const std::filesystem::path& folder) {
  create_folders(folder);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require(descriptor >= 0, ErrorKind::Io, "{}: cannot open: {}", folder.string(),
          std::strerror(errno));
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    fail(ErrorKind::Config, "{}: another process is training into this folder", folder.string());
  }
  return descriptor;
}

}  // namespace

RunFolder::RunFolder(const CheckpointConfig& config)
    : checkpoints_(config.folder, config), lock_(lock_folder(config.folder)) {
  checkpoints_.remove_leftovers();
}

RunFolder::~RunFolder() {
  ::close(lock_);
}

std::optional<CheckpointState> RunFolder::find_resume_point(const RunConfig& config,
                                                            Console& console) const {
  std::vector<std::string> refused;
  auto state = checkpoints_.newest_valid(refused);
  if (!state) {
    require(refused.empty(), ErrorKind::Data,
            "{}: no checkpoint is valid ({}); --overwrite starts the run again", path().string(),
            fmt::join(refused, "; "));
    return std::nullopt;
  }
  for (const std::string& line : refused) console.warning(line);
  if (!refused.empty())
    console.warning(fmt::format("taking the checkpoint of step {}", state->step));
  const ConfigChanges changes = compare_configs(state->config, config);
  require(changes.refused.empty(), ErrorKind::Config,
          "cannot resume {} with another config: {}; undo that, or use another checkpoint.folder",
          path().string(), fmt::join(changes.refused, "; "));
  for (const std::string& line : changes.noted) {
    console.warning(fmt::format("resuming with a changed value: {}", line));
  }
  return state;
}

void RunFolder::require_unused() const {
  const auto steps = checkpoints_.steps();
  if (steps.empty()) return;
  fail(ErrorKind::Config,
       "{}: holds checkpoints (the newest of step {}); --resume goes on from there, --overwrite "
       "deletes them and starts again",
       path().string(), steps.back());
}

}  // namespace flywheel
