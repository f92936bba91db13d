#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "train/append_file.h"
#include "train/tensorboard.h"

namespace flywheel {

// What machines read of a run: metrics.jsonl, one object a line that begins with "kind" and "step",
// and TensorBoard event files beside it. Failing writes must not end a run: they are reported once.
class Metrics {
 public:
  // Entries of steps after `resumed_step` are of a run that was cut off and are removed.
  Metrics(const std::filesystem::path& folder, std::int64_t resumed_step, bool tensorboard);

  // Values that are not finite are written as null.
  void write(std::string_view kind, std::int64_t step, std::span<const Scalar> scalars);
  // A continuation of prompt number `index`.
  void write_sample(std::int64_t step, std::size_t index, std::string_view prompt,
                    std::string_view text);

 private:
  void report_failure(std::int64_t step, const char* what);

  AppendFile jsonl_;
  std::optional<EventWriter> events_;
  bool failed_ = false;
};

// Drops lines of steps after `last_step`, and torn ones.
void truncate_metrics(const std::filesystem::path& jsonl, std::int64_t last_step);

}  // namespace flywheel
