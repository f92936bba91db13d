#include <fmt/format.h>

#include <algorithm>
#include <cxxopts.hpp>
#include <filesystem>

#include "analysis/small_world.h"
#include "core/error.h"
#include "tools/analyze.h"
#include "tools/analyze_flags.h"
#include "tools/progress_line.h"
#include "train/console.h"

namespace flywheel {
namespace {

constexpr std::int64_t kExactNodes = 20000;
constexpr std::int64_t kSampledSources = 500;

cxxopts::Options make_options() {
  cxxopts::Options options = subcommand_options(
      "graph",
      "Small-world statistics of the union of the layers of attention stacks, and of an edge list. "
      "Of the largest component; self-loops and repeated edges are left out.");
  add_stack_flags(options, "swa,sa,sa_swa");
  auto option = options.add_options();
  option("edges",
         "edge list: CSV with the columns source,target[,weight]; without --patterns alone",
         cxxopts::value<std::string>(), "FILE");
  option("match", "choose windows so that stacks have the nodes and edges of the edge list");
  option("n,tokens", "tokens of a sequence: nodes of the stacks",
         cxxopts::value<std::int64_t>()->default_value("2048"), "N");
  option("directed", "edges go from query to key; else both ways");
  option("sources", "shortest paths from so many nodes; 0: all, up to 20000 nodes, else 500",
         cxxopts::value<std::int64_t>()->default_value("0"), "N");
  option("random-graphs", "random graphs of each kind to compare with",
         cxxopts::value<std::int64_t>()->default_value("5"), "N");
  option("seed", "of permutations, random graphs and samples",
         cxxopts::value<std::uint64_t>()->default_value("0"), "N");
  add_output_flags(options);
  return options;
}

struct NamedEdges {
  std::string name;
  EdgeList edges;
};

NamedEdges read_named(const std::string& file) {
  NamedEdges result{std::filesystem::path(file).stem().string(), read_edges(file)};
  fmt::print("{}: {} nodes, {} edges; left out: {} self-loops, {} repeated edges\n", file,
             result.edges.nodes, result.edges.edges.size(), result.edges.self_loops,
             result.edges.duplicates);
  return result;
}

std::vector<AttentionStack> matched_stacks(const cxxopts::ParseResult& args, const EdgeList& list) {
  require(args.count("config") == 0 && args.count("window") == 0 && args.count("tokens") == 0,
          ErrorKind::Config,
          "--match chooses windows and tokens: leave out --config, --window, -n");
  const std::int64_t edges = count_edges(list, args.count("directed") != 0);
  std::vector<AttentionStack> stacks;
  for (const std::string& pattern : args["patterns"].as<std::vector<std::string>>()) {
    stacks.push_back(stack_of_density(pattern, attention_section(args),
                                      count_flag(args, "layers", 1), list.nodes, edges,
                                      args["seed"].as<std::uint64_t>()));
  }
  return stacks;
}

std::vector<NamedEdges> graphs_of(const cxxopts::ParseResult& args) {
  std::vector<NamedEdges> graphs;
  const bool match = args.count("match") != 0;
  const bool has_file = args.count("edges") != 0;
  require(has_file || !match, ErrorKind::Config, "--match needs --edges FILE");
  if (has_file) graphs.push_back(read_named(args["edges"].as<std::string>()));
  if (has_file && !match && args.count("patterns") == 0 && args.count("config") == 0) return graphs;
  const std::int64_t n = match ? graphs[0].edges.nodes : count_flag(args, "tokens", 2);
  const auto stacks = match ? matched_stacks(args, graphs[0].edges) : stack_flags(args);
  note_full_windows(stacks, n);
  for (const AttentionStack& stack : stacks) {
    graphs.push_back({stack.name, stack_edges(stack, n, args["seed"].as<std::uint64_t>())});
  }
  return graphs;
}

SmallWorld measure(const NamedEdges& graph, SmallWorldOptions options) {
  if (options.sources == 0 && graph.edges.nodes > kExactNodes) options.sources = kSampledSources;
  ProgressLine line;
  return small_world(graph.name, graph.edges, options, [&](std::int64_t done, std::int64_t total) {
    line.show([&] { return fmt::format("{}: {}%", graph.name, 100 * done / total); });
  });
}

std::vector<std::string> row_of(const std::string& name, const GraphStatistics& s,
                                const std::string& coefficient) {
  return {name,
          s.path.error > 0 ? fmt::format("{:.4f} ± {:.4f}", s.path.mean, s.path.error)
                           : fmt::format("{:.4f}", s.path.mean),
          fmt::format("{:.3f}", s.path.reachable),
          fmt::format("{:.4f}", s.clustering.average_local),
          fmt::format("{:.4f}", s.clustering.transitivity),
          coefficient};
}

void print_world(const SmallWorld& world, bool has_random) {
  fmt::print("\n{}\n", summary(world));
  std::vector<std::vector<std::string>> rows{
      {"", "path length", "pairs", "clustering", "transitivity", "small-world"},
      row_of(world.name, world.graph, "")};
  const auto add = [&](const char* kind, const GraphStatistics& random) {
    rows.push_back(row_of(kind, random, fmt::format("{:.3f}", world.coefficient(random))));
  };
  if (has_random) {
    add("Erdos-Renyi", world.erdos_renyi);
    add("same degrees", world.degree_matched);
  }
  fmt::print("{}\n", format_table(rows, 1));
}

int run(const cxxopts::ParseResult& args) {
  const SmallWorldOptions options{.directed = args.count("directed") != 0,
                                  .sources = count_flag(args, "sources", 0),
                                  .random_graphs = count_flag(args, "random-graphs", 0),
                                  .seed = args["seed"].as<std::uint64_t>()};
  const OutputFiles files = output_flags(args);
  files.prepare();
  std::vector<SmallWorld> worlds;
  for (const NamedEdges& graph : graphs_of(args)) {
    worlds.push_back(measure(graph, options));
    print_world(worlds.back(), options.random_graphs > 0);
  }
  write_outputs(files, small_world_csv(worlds), small_world_json(worlds, options),
                degree_chart(worlds));
  return 0;
}

}  // namespace

int analyze_graph(int argc, char** argv) {
  return run_subcommand(make_options(), argc, argv, run);
}

}  // namespace flywheel
