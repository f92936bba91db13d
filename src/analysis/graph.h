#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "analysis/coverage.h"
#include "analysis/edge_list.h"

namespace flywheel {

struct PathLength {
  double mean = 0;       // edges of a shortest path, over the pairs that have one
  double error = 0;      // standard error by the choice of sources; 0 where all were taken
  double reachable = 0;  // share of ordered pairs that have a path
};

struct Clustering {
  double average_local = 0;  // Watts and Strogatz 1998; a node with fewer than two neighbours has 0
  double transitivity = 0;   // three times the triangles over the connected triples
};

// A simple graph, held by igraph.
class Graph {
 public:
  // Undirected: an edge and its reverse are one.
  Graph(const EdgeList& edges, bool directed);
  // Random graphs are a function of the seed; equal nodes and edges each.
  static Graph erdos_renyi(std::int64_t nodes, std::int64_t edges, bool directed,
                           std::uint64_t seed);
  // Every node keeps its degree (its two degrees): 10 exchanges an edge of the ends of two edges.
  Graph rewired(std::uint64_t seed) const;
  // The largest weakly connected component.
  Graph largest_component() const;
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  bool directed() const;
  std::int64_t nodes() const;
  std::int64_t edges() const;
  double connection_probability() const;      // edges over pairs, ordered pairs if directed
  std::vector<std::int64_t> degrees() const;  // in and out together

  // Breadth first from `sources` nodes chosen by the seed, or from all.
  PathLength path_length(std::int64_t sources, std::uint64_t seed, const Progress& progress) const;
  Clustering clustering() const;  // directions are dropped

 private:
  struct Handle;
  explicit Graph(std::unique_ptr<Handle> handle);
  Graph copy() const;
  std::unique_ptr<Handle> handle_;
};

}  // namespace flywheel
