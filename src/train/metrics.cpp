#include "train/metrics.h"

#include <chrono>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json_fields.h"
#include "core/log.h"

namespace flywheel {
namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path prepared(const std::filesystem::path& jsonl, std::int64_t resumed_step) {
  if (std::filesystem::exists(jsonl)) truncate_metrics(jsonl, resumed_step);
  return jsonl;
}

}  // namespace

void truncate_metrics(const std::filesystem::path& jsonl, std::int64_t last_step) {
  const std::string text = read_text_file(jsonl);
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == text.npos) break;
    const std::string_view line = std::string_view(text).substr(begin, end + 1 - begin);
    const Json entry = Json::parse(line, nullptr, false);
    if (entry.is_object() && entry.contains("step") && entry["step"].is_number_integer() &&
        entry["step"].get<std::int64_t>() <= last_step) {
      kept += line;
    }
    begin = end + 1;
  }
  if (kept != text) write_file_atomically(jsonl, kept);
}

Metrics::Metrics(const std::filesystem::path& folder, std::int64_t resumed_step, bool tensorboard)
    : jsonl_(prepared(folder / "metrics.jsonl", resumed_step)) {
  if (tensorboard) events_.emplace(folder, resumed_step + 1, wall_time());
}

void Metrics::write(std::string_view kind, std::int64_t step, std::span<const Scalar> scalars) {
  const double now = wall_time();
  Json line = {{"kind", kind}, {"step", step}, {"time", now}};
  for (const Scalar& scalar : scalars) {
    const std::string tag(scalar.tag);
    line[tag] = std::isfinite(scalar.value) ? Json(scalar.value) : Json(nullptr);
  }
  try {
    jsonl_.append(line.dump() + "\n");
    if (!events_) return;
    std::vector<std::string> tags;
    for (const Scalar& scalar : scalars)
      tags.push_back(std::string(kind) + "/" + std::string(scalar.tag));
    std::vector<Scalar> tagged(scalars.begin(), scalars.end());
    for (std::size_t i = 0; i < tags.size(); ++i) tagged[i].tag = tags[i];
    events_->write(step, now, tagged);
  } catch (const Error& error) {
    report_failure(step, error.what());
  }
}

void Metrics::write_sample(std::int64_t step, std::size_t index, std::string_view prompt,
                           std::string_view text) {
  const double now = wall_time();
  const Json line = {{"kind", "sample"}, {"step", step},    {"time", now},
                     {"prompt", prompt}, {"number", index}, {"text", text}};
  try {
    jsonl_.append(line.dump() + "\n");
    if (!events_) return;
    const std::string tag = "sample/" + std::to_string(index);
    events_->write_text(step, now, tag, std::string(prompt) + std::string(text));
  } catch (const Error& error) {
    report_failure(step, error.what());
  }
}

void Metrics::report_failure(std::int64_t step, const char* what) {
  if (!failed_) log::warning("metrics are incomplete from step {}: {}", step, what);
  failed_ = true;
}

}  // namespace flywheel
