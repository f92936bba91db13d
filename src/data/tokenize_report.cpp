#include "data/tokenize_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace flywheel {

std::string progress_text(const TokenizeProgress& progress, double seconds) {
  const auto bytes = static_cast<double>(progress.bytes);
  const double rest = std::max(0.0, static_cast<double>(progress.total_bytes) - bytes);
  return fmt::format(
      "{:.0f} of {:.0f} MB, {} documents, {:.1f} MB/s, {:.2f}M tokens/s, {:.0f} s left",
      bytes / 1e6, static_cast<double>(progress.total_bytes) / 1e6, progress.documents,
      bytes / 1e6 / seconds, static_cast<double>(progress.tokens) / 1e6 / seconds,
      bytes > 0 ? rest / bytes * seconds : 0.0);
}

std::string summary_text(const TokenizeSummary& summary, double seconds) {
  const auto line = [](const char* name, const TokenizeSummary::Split& split) {
    return fmt::format("{:<10} {:>10} documents {:>13} tokens {:>5} shards\n", name,
                       split.documents, split.tokens, split.shards);
  };
  const auto bytes = static_cast<double>(summary.text_bytes);
  const auto tokens = static_cast<double>(summary.train.tokens + summary.validation.tokens);
  return line("train", summary.train) + line("validation", summary.validation) +
         fmt::format("{:.4f} tokens a byte; {:.1f} MB of text in {:.1f} s, {:.1f} MB/s\n",
                     tokens / bytes, bytes / 1e6, seconds, bytes / 1e6 / seconds);
}

}  // namespace flywheel
