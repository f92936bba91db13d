#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace flywheel {

// Lines for people. On a terminal, a progress line is redrawn in place and some text is bold;
// elsewhere there are only plain lines.
class Console {
 public:
  // nullptr: says nothing.
  explicit Console(std::FILE* out);
  ~Console();  // ends the progress line
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void line(std::string_view text);
  void progress(std::string_view text);  // only on a terminal
  void warning(std::string_view text);   // on standard error
  std::string bold(std::string_view text) const;
  bool is_terminal() const { return terminal_; }

 private:
  void clear_progress();
  std::FILE* out_;
  bool terminal_;
  bool has_progress_ = false;
};

// Columns two spaces apart; those after the first `left` ones are aligned to the right.
std::string format_table(const std::vector<std::vector<std::string>>& rows, std::size_t left);

std::string human_count(double value);               // 359.9M
std::string human_bytes(std::int64_t bytes);         // 1.34 GiB
std::string human_seconds(double seconds);           // 1h02m, 3m20s, 12s
std::string shell_quote(std::string_view argument);  // as a shell reads it back

}  // namespace flywheel
