#include "train/checkpoint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/log.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "step_";
constexpr std::size_t kStepDigits = 8;

// Leftovers of a killed process begin so: unfinished checkpoints and those being deleted.
constexpr const char* kTemporaryPrefix = ".tmp_";

std::string name_of_step(std::int64_t step) {
  return fmt::format("{}{:0{}}", kPrefix, step, kStepDigits);
}

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(std::strlen(kPrefix));
  const bool digits =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || name.size() < kStepDigits || name.size() > 18) return std::nullopt;
  return std::stoll(std::string(name));
}

[[noreturn]] void fail_io(const fs::path& path, const char* action, const std::error_code& error) {
  fail(ErrorKind::Io, "{}: cannot {}: {}", path.string(), action, error.message());
}

void remove_folder(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_io(path, "remove", error);
}

void rename_path(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_io(to, "rename to", error);
}

// Moves a link at once: readers see the old target or the new one.
void move_link(const fs::path& link, const std::string& target) {
  std::error_code error;
  if (fs::read_symlink(link, error) == target) return;
  const fs::path temporary = link.parent_path() / (kTemporaryPrefix + link.filename().string());
  fs::remove(temporary, error);
  fs::create_symlink(target, temporary, error);
  if (error) fail_io(temporary, "create the link", error);
  rename_path(temporary, link);
}

// Renamed first, so that a checkpoint whose deletion is cut short does not look like one.
void remove_checkpoint(const fs::path& path) {
  const fs::path doomed =
      path.parent_path() / (kTemporaryPrefix + path.filename().string() + "_old");
  remove_folder(doomed);
  rename_path(path, doomed);
  remove_folder(doomed);
}

// Lists the files of a folder with their checksums, each flushed to the disk.
std::vector<CheckpointFile> flush_files(const fs::path& folder) {
  std::vector<CheckpointFile> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    sync_path(entry.path());
    files.push_back({entry.path().filename().string(), static_cast<std::int64_t>(entry.file_size()),
                     checksum_text(checksum_of_file(entry.path()))});
  }
  std::sort(files.begin(), files.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace

void verify_checkpoint_file(const fs::path& folder, const CheckpointFile& file) {
  const fs::path path = folder / file.name;
  require(fs::path(file.name).filename() == file.name, ErrorKind::Data,
          "{}: names a file outside of it, '{}'", folder.string(), file.name);
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path, error));
  require(!error, ErrorKind::Data, "{}: missing ({})", path.string(), error.message());
  require(bytes == file.bytes, ErrorKind::Data, "{}: has {} bytes, expected {}", path.string(),
          bytes, file.bytes);
  const std::string sum = checksum_text(checksum_of_file(path));
  require(sum == file.checksum, ErrorKind::Data, "{}: damaged (checksum {}, expected {})",
          path.string(), sum, file.checksum);
}

CheckpointStore::CheckpointStore(fs::path run_folder, const CheckpointConfig& config)
    : folder_(std::move(run_folder)), config_(config) {}

fs::path CheckpointStore::path_of(std::int64_t step) const {
  return folder_ / name_of_step(step);
}

std::vector<std::int64_t> CheckpointStore::steps() const {
  std::vector<std::int64_t> steps;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const auto step = step_of_name(entry.path().filename().string());
    if (step && entry.is_directory()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void CheckpointStore::save(CheckpointState state,
                           const std::function<void(const fs::path&)>& write_files) {
  const fs::path final_path = path_of(state.step);
  const fs::path temporary = folder_ / (kTemporaryPrefix + name_of_step(state.step));
  try {
    remove_folder(temporary);
    std::error_code error;
    fs::create_directory(temporary, error);
    if (error) fail_io(temporary, "create the folder", error);
    write_files(temporary);
    state.files = flush_files(temporary);
    FileWriter writer(temporary / kStateFile);
    const std::string text = state_to_json(state);
    writer.write(std::as_bytes(std::span(text)));
    writer.close();
    sync_path(temporary);
    // A folder of this name is a damaged checkpoint that was refused when the run resumed.
    if (fs::exists(final_path)) remove_checkpoint(final_path);
    rename_path(temporary, final_path);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  sync_path(folder_);
  move_links(state.step);
  sync_path(folder_);
  remove_old(state.step);
}

void CheckpointStore::move_links(std::int64_t newest) const {
  move_link(folder_ / "latest", name_of_step(newest));
  if (const auto best = best_step()) move_link(folder_ / "best", name_of_step(*best));
}

std::optional<std::int64_t> CheckpointStore::best_step() const {
  std::optional<std::int64_t> best;
  double best_loss = std::numeric_limits<double>::infinity();
  for (const std::int64_t step : steps()) {
    try {
      const CheckpointState state = read_state(path_of(step) / kStateFile);
      if (state.validation_loss && *state.validation_loss < best_loss) {
        best_loss = *state.validation_loss;
        best = step;
      }
    } catch (const Error&) {  // a damaged one is never the best
    }
  }
  return best;
}

// Later steps than the newest are damaged checkpoints, which count for nothing.
void CheckpointStore::remove_old(std::int64_t newest) const {
  std::vector<std::int64_t> old = steps();
  std::erase_if(old, [&](std::int64_t step) { return step > newest; });
  const auto last = static_cast<std::size_t>(config_.keep_last);
  old.resize(old.size() - std::min(old.size(), last));
  const auto best = best_step();
  for (const std::int64_t step : old) {
    if (config_.keep_every > 0 && step % config_.keep_every == 0) continue;
    if (config_.keep_best && step == best) continue;
    try {
      remove_checkpoint(path_of(step));
    } catch (const Error& error) {
      log::warning("an old checkpoint stays: {}", error.what());
    }
  }
}

CheckpointState CheckpointStore::verify(std::int64_t step) const {
  const fs::path folder = path_of(step);
  CheckpointState state = read_state(folder / kStateFile);
  require(state.step == step, ErrorKind::Data, "{}: holds the state of step {}", folder.string(),
          state.step);
  for (const CheckpointFile& file : state.files) verify_checkpoint_file(folder, file);
  return state;
}

std::optional<CheckpointState> CheckpointStore::newest_valid(
    std::vector<std::string>& refused) const {
  const std::vector<std::int64_t> all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    try {
      return verify(*step);
    } catch (const Error& error) {
      refused.push_back(
          fmt::format("checkpoint {} is refused: {}", name_of_step(*step), error.what()));
    }
  }
  return std::nullopt;
}

void CheckpointStore::remove_leftovers() const {
  std::vector<fs::path> leftovers;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().filename().string().starts_with(kTemporaryPrefix)) {
      leftovers.push_back(entry.path());
    }
  }
  for (const fs::path& path : leftovers) remove_folder(path);
}

void CheckpointStore::clear() const {
  for (const std::int64_t step : steps()) remove_checkpoint(path_of(step));
  std::error_code ignored;
  fs::remove(folder_ / "latest", ignored);
  fs::remove(folder_ / "best", ignored);
}

}  // namespace flywheel
