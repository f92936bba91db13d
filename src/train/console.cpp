#include "train/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "core/log.h"

namespace flywheel {
namespace {

bool is_capable_terminal(std::FILE* out) {
  if (out == nullptr) return false;
  // mpirun's pseudo-terminal says nothing of where the output goes.
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr) return false;
  const char* term = std::getenv("TERM");
  return isatty(fileno(out)) == 1 && std::getenv("NO_COLOR") == nullptr && term != nullptr &&
         std::string_view(term) != "dumb";
}

}  // namespace

Console::Console(std::FILE* out) : out_(out), terminal_(is_capable_terminal(out)) {}

Console::~Console() {
  if (out_ == nullptr) return;
  if (has_progress_) std::fputc('\n', out_);
  std::fflush(out_);
}

void Console::clear_progress() {
  if (has_progress_) std::fputs("\r\x1b[K", out_);
  has_progress_ = false;
}

void Console::line(std::string_view text) {
  if (out_ == nullptr) return;
  clear_progress();
  fmt::print(out_, "{}\n", text);
  std::fflush(out_);
}

void Console::progress(std::string_view text) {
  if (!terminal_) return;
  clear_progress();
  fmt::print(out_, "{}", text);
  std::fflush(out_);
  has_progress_ = true;
}

void Console::warning(std::string_view text) {
  if (out_ == nullptr) return;
  clear_progress();
  std::fflush(out_);
  log::write(log::Level::Warning, text);
}

std::string Console::bold(std::string_view text) const {
  return terminal_ ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string format_table(const std::vector<std::vector<std::string>>& rows, std::size_t left) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i < left ? fmt::format(" {:<{}} ", row[i], widths[i])
                       : fmt::format(" {:>{}} ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += (table.empty() ? "" : "\n") + line;
  }
  return table;
}

std::string human_count(double value) {
  constexpr std::array<const char*, 6> units{"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  while (std::abs(value) >= 999.95 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.1f}{}", value, units.at(unit));
}

std::string human_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1023.995 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units.at(unit));
}

std::string human_seconds(double seconds) {
  const auto total = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const std::int64_t hours = total / 3600;
  const std::int64_t minutes = total / 60 % 60;
  if (hours >= 48) return fmt::format("{}d{:02}h", hours / 24, hours % 24);
  if (hours > 0) return fmt::format("{}h{:02}m", hours, minutes);
  if (minutes > 0) return fmt::format("{}m{:02}s", minutes, total % 60);
  return fmt::format("{}s", total);
}

std::string shell_quote(std::string_view argument) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!argument.empty() && argument.find_first_not_of(kSafe) == argument.npos) {
    return std::string(argument);
  }
  std::string quoted = "'";
  for (const char letter : argument) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

}  // namespace flywheel
