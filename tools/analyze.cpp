// analyze: what attention patterns reach, what graphs they are, and what trained models do with
// them.

#include "tools/analyze.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/error.h"
#include "core/nearest_name.h"
#include "tools/program.h"

namespace {

using namespace flywheel;

constexpr const char* kHelp = R"(What attention patterns reach, and what graphs they are.
Usage:
  analyze coverage [OPTION...]   how much of the text a query reaches, layer by layer
  analyze graph [OPTION...]      small-world statistics of attention stacks and of edge lists
  analyze mixing [OPTION...]     how fast layers average tokens; sa as an estimator of full attention
  analyze gates [OPTION...]      how far an SA+SWA model opens its gates, by layer and head
  analyze positions [OPTION...]  perplexity of a text by the length of the context

`analyze SUBCOMMAND --help` lists the options. Examples:
  analyze coverage --tokens 16384 --window 256 --layers 24 --figure coverage.svg
  analyze coverage --config configs/gpt_360m_sa_swa.json --json coverage.json
  analyze gates --model runs/mine --text held_out.txt --figure gates.svg
  analyze positions --model runs/full --model runs/sa_swa --text held_out.txt
  analyze graph --edges larva_edges.csv --match --patterns swa,sa,sa_swa --layers 4
  analyze mixing --tokens 1024 --window 32 --layers 8 --no-mask
)";

struct Subcommand {
  const char* name;
  int (*run)(int argc, char** argv);
};
constexpr std::array kSubcommands{
    Subcommand{"coverage", analyze_coverage}, Subcommand{"graph", analyze_graph},
    Subcommand{"mixing", analyze_mixing}, Subcommand{"gates", analyze_gates},
    Subcommand{"positions", analyze_positions}};

int run(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--help") {
    fmt::print("{}", kHelp);
    return 0;
  }
  std::vector<std::string> known;
  for (const Subcommand& subcommand : kSubcommands) {
    if (name == subcommand.name) return subcommand.run(argc - 1, argv + 1);
    known.emplace_back(subcommand.name);
  }
  require(!name.empty(), ErrorKind::Config, "a subcommand is needed; see analyze --help");
  const std::string nearest = nearest_name(name, known);
  fail(ErrorKind::Config, "unknown subcommand '{}'{}; see analyze --help", name,
       nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest));
}

}  // namespace

int main(int argc, char** argv) {
  return flywheel::run_program("analyze", argc, argv, run);
}
