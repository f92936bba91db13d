#include "plot/gnuplot.h"

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/file_io.h"
#include "core/temporary_folder.h"

namespace flywheel {
namespace {

namespace fs = std::filesystem;

std::string quoted(const fs::path& path) {
  return "'" + path.string() + "'";
}

}  // namespace

std::string gnuplot_svg(const std::string& script, int width, int height) {
  require(std::system("command -v gnuplot >/dev/null 2>&1") == 0, ErrorKind::Config,
          "figures are drawn by gnuplot, which is not installed: apt-get install gnuplot-nox");
  const TemporaryFolder scratch;
  const fs::path& folder = scratch.path();
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
