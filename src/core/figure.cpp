#include "core/figure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/file_io.h"

namespace flywheel {
namespace {

// A file that is gone with the object.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& content) {
    path_ = (std::filesystem::temp_directory_path() / "flywheel_XXXXXX").string();
    const int file = ::mkstemp(path_.data());
    require(file >= 0, ErrorKind::Io, "{}: {}", path_, std::strerror(errno));
    const ::ssize_t written = ::write(file, content.data(), content.size());
    ::close(file);
    require(written == static_cast<::ssize_t>(content.size()), ErrorKind::Io, "{}: cannot write",
            path_);
  }
  ~ScratchFile() { ::unlink(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct ChildResult {
  int exit_code = -1;
  std::string output;
};

ChildResult run_child(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  require(pipe != nullptr, ErrorKind::Io, "cannot start a shell: {}", std::strerror(errno));
  ChildResult result;
  std::array<char, 4096> buffer;
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    result.output.append(buffer.data(), n);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string axis_commands(const char* name, const Axis& axis) {
  return fmt::format("set {}label {}\n{}", name, gnuplot_quote(axis.label),
                     axis.logarithmic ? fmt::format("set logscale {}\n", name) : "");
}

// Blue, orange, green, ...: told apart by the colour-blind (Okabe and Ito 2008).
constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                              "#e69f00", "#56b4e9", "#000000"};

std::string script_of(const Figure& figure) {
  std::string script = fmt::format(
      "set terminal svg size 760,460 dynamic background '#ffffff' font 'sans-serif,13'\n"
      "set title {} noenhanced\nset grid linecolor '#dddddd'\nset key {} noenhanced\n{}{}",
      gnuplot_quote(figure.title), figure.key, axis_commands("x", figure.x),
      axis_commands("y", figure.y));
  std::vector<std::string> plots;
  for (std::size_t k = 0; k < figure.series.size(); ++k) {
    const Series& series = figure.series[k];
    script += fmt::format("$data{} << end_of_data\n", k);
    for (const auto& [x, y] : series.points) script += fmt::format("{} {}\n", x, y);
    script += "end_of_data\n";
    plots.push_back(
        fmt::format("$data{} using 1:2 with {} title {} linewidth 2 linecolor rgb '{}' pointtype 7 "
                    "pointsize 0.4",
                    k, series.style, gnuplot_quote(series.name), kColours[k % kColours.size()]));
  }
  return script + fmt::format("plot {}\n", fmt::join(plots, ", "));
}

}  // namespace

std::string gnuplot_quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + '"';
}

void require_gnuplot() {
  require(run_child("command -v gnuplot").exit_code == 0, ErrorKind::Config,
          "figures need gnuplot, which is not here: apt-get install gnuplot-nox");
}

std::string run_gnuplot(const std::string& script) {
  require_gnuplot();
  const ScratchFile file(script);
  ChildResult result = run_child("gnuplot " + shell_word(file.path()));
  require(result.exit_code == 0 && !result.output.empty(), ErrorKind::Config,
          "gnuplot could not draw: exit code {}", result.exit_code);
  return std::move(result.output);
}

void draw_figure(const Figure& figure, const std::filesystem::path& path) {
  write_file_atomically(path, run_gnuplot(script_of(figure)));
}

}  // namespace flywheel
