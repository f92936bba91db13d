#include "analysis/small_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "core/json_fields.h"

namespace flywheel {
namespace {

GraphStatistics statistics(const Graph& graph, const SmallWorldOptions& options,
                           const Progress& progress) {
  const std::int64_t sources = options.sources == 0 ? graph.nodes() : options.sources;
  return {.path = graph.path_length(sources, options.seed, progress),
          .clustering = graph.clustering()};
}

void add(GraphStatistics& sum, const GraphStatistics& part, double weight) {
  sum.path.mean += weight * part.path.mean;
  sum.path.reachable += weight * part.path.reachable;
  sum.clustering.average_local += weight * part.clustering.average_local;
  sum.clustering.transitivity += weight * part.clustering.transitivity;
}

// Name and statistics of a graph and its random counterparts.
auto kinds_of(const SmallWorld& world) {
  return std::array{std::pair{"graph", &world.graph}, std::pair{"erdos_renyi", &world.erdos_renyi},
                    std::pair{"degree_matched", &world.degree_matched}};
}

Json to_json(const GraphStatistics& statistics) {
  return {{"path_length", statistics.path.mean},
          {"path_length_error", statistics.path.error},
          {"reachable_pairs", statistics.path.reachable},
          {"clustering", statistics.clustering.average_local},
          {"transitivity", statistics.clustering.transitivity}};
}

std::map<std::int64_t, std::int64_t> histogram(const std::vector<std::int64_t>& degrees) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t degree : degrees) ++counts[degree];
  return counts;
}

}  // namespace

double SmallWorld::coefficient(const GraphStatistics& random) const {
  return graph.clustering.average_local / random.clustering.average_local /
         (graph.path.mean / random.path.mean);
}

SmallWorld small_world(const std::string& name, const EdgeList& edges,
                       const SmallWorldOptions& options, const Progress& progress) {
  require(!edges.edges.empty(), ErrorKind::Data, "{}: no edges between different nodes", name);
  const Graph graph = Graph(edges, options.directed).largest_component();
  SmallWorld world{.name = name,
                   .nodes_given = edges.nodes,
                   .nodes = graph.nodes(),
                   .edges = graph.edges(),
                   .connection_probability = graph.connection_probability(),
                   .degrees = graph.degrees()};
  const std::int64_t steps = 1 + 2 * options.random_graphs;
  std::int64_t step = 0;
  const auto measure = [&](const Graph& g) {
    const auto result = statistics(g, options, [&](std::int64_t done, std::int64_t total) {
      if (progress) progress(step * total + done, steps * total);
    });
    ++step;
    return result;
  };
  world.graph = measure(graph);
  const double weight = 1 / static_cast<double>(std::max<std::int64_t>(options.random_graphs, 1));
  for (std::int64_t k = 0; k < options.random_graphs; ++k) {
    const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(k);
    add(world.erdos_renyi,
        measure(Graph::erdos_renyi(graph.nodes(), graph.edges(), options.directed, seed)), weight);
    add(world.degree_matched, measure(graph.rewired(seed)), weight);
  }
  return world;
}

std::string summary(const SmallWorld& world) {
  const auto [least, most] = std::minmax_element(world.degrees.begin(), world.degrees.end());
  const std::string component =
      world.nodes == world.nodes_given
          ? ""
          : fmt::format(" (the largest component; all: {})", world.nodes_given);
  return fmt::format(
      "{}: {} nodes{}, {} edges, connection probability {:.5f}, degrees {} to {}, mean {:.1f}",
      world.name, world.nodes, component, world.edges, world.connection_probability, *least, *most,
      2 * static_cast<double>(world.edges) / static_cast<double>(world.nodes));
}

std::string small_world_csv(const std::vector<SmallWorld>& graphs) {
  std::string csv =
      "graph,kind,nodes,edges,probability,path_length,path_length_error,reachable_pairs,clustering,"
      "transitivity,coefficient\n";
  for (const SmallWorld& world : graphs) {
    for (const auto& [kind, s] : kinds_of(world)) {
      csv += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", world.name, kind, world.nodes,
                         world.edges, world.connection_probability, s->path.mean, s->path.error,
                         s->path.reachable, s->clustering.average_local, s->clustering.transitivity,
                         s == &world.graph ? "" : fmt::format("{}", world.coefficient(*s)));
    }
  }
  return csv;
}

std::string small_world_json(const std::vector<SmallWorld>& graphs,
                             const SmallWorldOptions& options) {
  Json list = Json::array();
  for (const SmallWorld& world : graphs) {
    Json json{{"name", world.name},
              {"nodes_given", world.nodes_given},
              {"nodes", world.nodes},
              {"edges", world.edges},
              {"probability", world.connection_probability}};
    for (const auto& [kind, s] : kinds_of(world)) json[kind] = to_json(*s);
    json["coefficient_erdos_renyi"] = world.coefficient(world.erdos_renyi);
    json["coefficient_degree_matched"] = world.coefficient(world.degree_matched);
    json["degrees"] = histogram(world.degrees);  // [degree, nodes] pairs
    list.push_back(json);
  }
  return Json{{"directed", options.directed},
              {"random_graphs", options.random_graphs},
              {"graphs", list}}
             .dump(2) +
         "\n";
}

Chart degree_chart(const std::vector<SmallWorld>& graphs) {
  Chart chart{.title = "Degree distribution",
              .x_label = "degree k",
              .y_label = "share of nodes with a degree of k or more",
              .log_x = true,
              .log_y = true};
  for (const SmallWorld& world : graphs) {
    Series series{.title = world.name};
    auto left = static_cast<double>(world.degrees.size());
    for (const auto& [degree, count] : histogram(world.degrees)) {
      series.points.emplace_back(static_cast<double>(degree),
                                 left / static_cast<double>(world.degrees.size()));
      left -= static_cast<double>(count);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace flywheel
