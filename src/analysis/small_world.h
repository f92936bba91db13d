#pragma once

#include <string>
#include <vector>

#include "analysis/graph.h"
#include "plot/chart.h"

namespace flywheel {

struct GraphStatistics {
  PathLength path;
  Clustering clustering;
};

struct SmallWorldOptions {
  bool directed = false;
  std::int64_t sources = 0;        // of shortest paths; 0: all nodes
  std::int64_t random_graphs = 5;  // of each kind
  std::uint64_t seed = 0;
};

// The small-world statistics of the largest weakly connected component of a graph.
struct SmallWorld {
  std::string name;
  std::int64_t nodes_given = 0;  // in all components
  std::int64_t nodes = 0;
  std::int64_t edges = 0;
  double connection_probability = 0;
  GraphStatistics graph;
  GraphStatistics erdos_renyi;     // means over random graphs
  GraphStatistics degree_matched;  // means over random graphs
  std::vector<std::int64_t> degrees;

  // (C / C_random) / (L / L_random), C the average local clustering (Humphries and Gurney 2008).
  double coefficient(const GraphStatistics& random) const;
};

SmallWorld small_world(const std::string& name, const EdgeList& edges,
                       const SmallWorldOptions& options, const Progress& progress = {});

// One line for people: nodes, edges, connection probability, degrees.
std::string summary(const SmallWorld& world);
// A line a graph and kind (itself, erdos_renyi, degree_matched).
std::string small_world_csv(const std::vector<SmallWorld>& graphs);
std::string small_world_json(const std::vector<SmallWorld>& graphs,
                             const SmallWorldOptions& options);
// The share of nodes whose degree is at least k.
Chart degree_chart(const std::vector<SmallWorld>& graphs);

}  // namespace flywheel
