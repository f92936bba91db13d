#include "plot/gnuplot.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "core/file_io.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "flywheel_plot_XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, ErrorKind::Io, "{}: cannot be made: {}", name,
            std::strerror(errno));
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string quoted(const fs::path& path) {
  return "'" + path.string() + "'";
}

}  // namespace

std::string gnuplot_svg(const std::string& script, int width, int height) {
  require(std::system("command -v gnuplot >/dev/null 2>&1") == 0, ErrorKind::Config,
          "figures are drawn by gnuplot, which is not installed: apt-get install gnuplot-nox");
  const ScratchFolder folder;
  const fs::path figure = folder / "figure.svg";
  const std::string terminal = fmt::format(
      "set terminal svg size {},{} dynamic font 'sans-serif,13'\n"
      "set output {}\n",
      width, height, quoted(figure));
  write_file_atomically(folder / "script", terminal + script);
  const std::string command = "LC_ALL=C gnuplot " + quoted(folder / "script") + " >" +
                              quoted(folder / "log") + " 2>&1 </dev/null";
  const bool drawn = std::system(command.c_str()) == 0 && fs::exists(figure);
  require(drawn, ErrorKind::Config, "gnuplot drew nothing: {}", read_text_file(folder / "log"));
  return read_text_file(figure);
}

}  // namespace flywheel
