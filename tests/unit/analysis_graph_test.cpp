#include <cmath>

#include "analysis/small_world.h"
#include "core/file_io.h"
#include "core/json_fields.h"
#include "core/philox.h"
#include "support/attention_reference.h"
#include "support/catch.h"
#include "support/errors.h"
#include "support/test_data.h"

using namespace flywheel;
using namespace flywheel::test;

namespace {

using Edges = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Each node and its `degree` / 2 nearest on both sides.
Edges ring_lattice(std::int64_t n, std::int64_t degree) {
  Edges edges;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t d = 1; d <= degree / 2; ++d) edges.emplace_back(i, (i + d) % n);
  }
  return edges;
}

// Every edge of the ring moves its far end to a random node with probability p (Watts and Strogatz
// 1998).
Edges watts_strogatz(std::int64_t n, std::int64_t degree, double p, std::uint64_t seed) {
  const RandomSequence random(seed, RandomStream::kSampling);
  Edges edges = ring_lattice(n, degree);
  std::uint64_t word = 0;
  for (auto& [source, target] : edges) {
    if (random.uniform(word++) >= p) continue;
    do {
      target = static_cast<std::int64_t>(random.below(word++, static_cast<std::uint64_t>(n)));
    } while (target == source);
  }
  return edges;
}

// Without random graphs, all sources.
SmallWorld measure(std::int64_t n, const Edges& edges, bool directed = false) {
  return small_world("graph", simplified(n, edges), {.directed = directed, .random_graphs = 0});
}

EdgeList read_text(const std::string& text) {
  const TemporaryFolder folder;
  write_file_atomically(folder.path() / "edges.csv", text);
  return read_edges(folder.path() / "edges.csv");
}

}  // namespace

TEST_CASE("a ring lattice has the clustering and path length of its closed forms") {
  for (const auto& [n, k] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{20, 4}, {101, 10}, {500, 20}}) {
    const SmallWorld world = measure(n, ring_lattice(n, k));
    REQUIRE(world.edges == n * k / 2);
    REQUIRE(world.connection_probability == Approx(double(k) / double(n - 1)));
    const double expected = 3.0 * double(k - 2) / (4.0 * double(k - 1));
    REQUIRE(world.graph.clustering.average_local == Approx(expected).epsilon(1e-12));
    REQUIRE(world.graph.clustering.transitivity == Approx(expected).epsilon(1e-12));
    double sum = 0;
    for (std::int64_t d = 1; d < n; ++d)
      sum += std::ceil(double(std::min(d, n - d)) * 2 / double(k));
    REQUIRE(world.graph.path.mean == Approx(sum / double(n - 1)).epsilon(1e-12));
    REQUIRE(world.graph.path.error == 0);
  }
}

TEST_CASE("a complete graph has clustering and path length 1") {
  for (const bool directed : {false, true}) {
    Edges edges;
    for (std::int64_t i = 0; i < 30; ++i) {
      for (std::int64_t j = 0; j < 30; ++j) edges.emplace_back(i, j);
    }
    const SmallWorld world = measure(30, edges, directed);
    REQUIRE(world.edges == (directed ? 870 : 435));
    REQUIRE(world.connection_probability == 1);
    REQUIRE(world.graph.path.mean == 1);
    REQUIRE(world.graph.path.reachable == 1);
    REQUIRE(world.graph.clustering.average_local == 1);
    REQUIRE(world.graph.clustering.transitivity == 1);
  }
}

// Barrat and Weigt 2000: C(p) = C(0) (1 - p)^3 but for terms of 1/n; transitivity is what they
// derive. Over 10 graphs of 2000 nodes it stays within 3%.
TEST_CASE("Watts-Strogatz graphs lose clustering as (1 - p)^3") {
  for (const double p : {0.0, 0.05, 0.1, 0.3}) {
    double clustering = 0;
    constexpr int kGraphs = 10;
    for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
      const Graph graph(simplified(2000, watts_strogatz(2000, 20, p, seed)), false);
      clustering += graph.clustering().transitivity / kGraphs;
    }
    const double ring = 3.0 * 18 / (4 * 19);
    REQUIRE(clustering == Approx(ring * std::pow(1 - p, 3)).epsilon(0.03));
  }
}

TEST_CASE("small worlds are between the ring and the random graph") {
  const SmallWorld world =
      small_world("ws", simplified(1000, watts_strogatz(1000, 20, 0.1, 1)), {.random_graphs = 3});
  REQUIRE(world.coefficient(world.erdos_renyi) > 10);
  REQUIRE(world.coefficient(world.degree_matched) > 10);
  // A random graph's clustering is its connection probability.
  REQUIRE(world.erdos_renyi.clustering.average_local ==
          Approx(world.connection_probability).epsilon(0.1));
}

TEST_CASE("rewired graphs keep all degrees, random ones nodes and edges") {
  for (const bool directed : {false, true}) {
    const Graph graph(simplified(300, watts_strogatz(300, 8, 0.3, 5)), directed);
    const Graph rewired = graph.rewired(1);
    REQUIRE(rewired.degrees() == graph.degrees());
    REQUIRE(rewired.clustering().transitivity < 0.5 * graph.clustering().transitivity);
    REQUIRE(rewired.clustering().transitivity == graph.rewired(1).clustering().transitivity);
    REQUIRE(rewired.clustering().transitivity != graph.rewired(2).clustering().transitivity);
    const Graph random = Graph::erdos_renyi(300, graph.edges(), directed, 1);
    REQUIRE(random.edges() == graph.edges());
    REQUIRE(random.degrees() == Graph::erdos_renyi(300, graph.edges(), directed, 1).degrees());
  }
}

TEST_CASE("sampled path lengths are within their error") {
  const Graph graph(simplified(2000, watts_strogatz(2000, 6, 0.05, 3)), false);
  const PathLength all = graph.path_length(2000, 0, {});
  int within = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const PathLength some = graph.path_length(100, seed, {});
    REQUIRE(some.error > 0);
    REQUIRE(std::abs(some.mean - all.mean) < 5 * some.error);
    within += std::abs(some.mean - all.mean) < 2 * some.error;
  }
  REQUIRE(within >= 32);  // 38 expected
}

TEST_CASE("the largest component is measured") {
  Edges edges = ring_lattice(50, 4);
  edges.emplace_back(60, 61);
  const SmallWorld world = measure(62, edges);
  REQUIRE(world.nodes_given == 62);
  REQUIRE(world.nodes == 50);
  REQUIRE(world.graph.path.reachable == 1);
  // Directed: weakly connected, and pairs without a path are left out.
  const SmallWorld path = measure(3, {{0, 1}, {1, 2}}, true);
  REQUIRE(path.nodes == 3);
  REQUIRE(path.graph.path.reachable == 0.5);
  REQUIRE(path.graph.path.mean == Approx(4.0 / 3));
}

TEST_CASE("the union of a stack has the edges of all its layers") {
  AttentionConfig section;
  section.window = 5;
  const AttentionStack stack = uniform_stack("sa_swa", section, 3);
  Edges expected;
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    const PermutationKey key{
        .seed = 7, .stream = RandomStream::kEvaluationPermutation, .layer = layer};
    const auto sigma = reference_permutation(key, 0, 40);
    for (std::int64_t i = 0; i < 40; ++i) {
      for (std::int64_t j = 0; j < i; ++j) {
        for (const AttentionPattern& path : paths_of(stack.layers[layer])) {
          if (visible(path, sigma, 40, i, j)) expected.emplace_back(i, j);
        }
      }
    }
  }
  REQUIRE(stack_edges(stack, 40, 7).edges == simplified(40, expected).edges);
}

TEST_CASE("a window is found for a number of edges") {
  for (const char* pattern : {"swa", "sa", "sa_swa"}) {
    const AttentionStack stack = stack_of_density(pattern, {}, 2, 400, 8000, 0);
    const auto edges = std::ssize(stack_edges(stack, 400, 0).edges);
    REQUIRE(std::abs(edges - 8000) <= 600);  // half of what a step of the window adds, at most
  }
}

TEST_CASE("edge lists are read with and without a header") {
  const EdgeList list = read_text("source,target,weight\na,b,1\nb,a,2\na,b,1\nc,c,5\n");
  REQUIRE(list.nodes == 3);
  REQUIRE(list.edges == Edges{{0, 1}, {1, 0}});
  REQUIRE(list.self_loops == 1);
  REQUIRE(list.duplicates == 1);
  REQUIRE(read_text("weight,target,source\r\n1,b,a\r\n").edges == Edges{{0, 1}});
  REQUIRE(read_text("7,3\n3,9").edges == Edges{{0, 1}, {1, 2}});
  const auto error = [](const std::string& text) { return error_of([&] { read_text(text); }); };
  REQUIRE(contains(error("from,to\n1,2\n"), "no column 'source'"));
  REQUIRE(contains(error("source,weight\n1,2\n"), "no column 'target'"));
  REQUIRE(contains(error("source,target\n1,2\n1\n"), "line 3: expected 2 columns"));
  REQUIRE(contains(error("1,2,3\n,2,3\n"), "line 2"));
  REQUIRE(contains(error(""), "no edges"));
  REQUIRE(contains(error_of([] { measure(2, {{0, 0}}); }), "no edges between different nodes"));
}

TEST_CASE("the larval connectome has the statistics that networkx finds") {
  const auto file = real_data("connectome/larva_edges.csv");
  if (!file) {
    std::puts("skipped: no connectome/larva_edges.csv");
    return;
  }
  const EdgeList list = read_edges(*file);
  const Json golden_values = read_json_file(golden("small_world.json"));
  for (const bool directed : {false, true}) {
    const Json& golden = golden_values.at(directed ? "directed" : "undirected");
    const SmallWorld world = small_world("larva", list, {.directed = directed, .random_graphs = 0});
    const auto same = [&](const char* name, double value) {
      INFO(name << " directed " << directed);
      REQUIRE(value == Approx(golden.at(name).get<double>()).epsilon(5e-5));
    };
    same("nodes", double(world.nodes));
    same("edges", double(world.edges));
    same("probability", world.connection_probability);
    same("path_length", world.graph.path.mean);
    same("reachable_pairs", world.graph.path.reachable);
    same("clustering", world.graph.clustering.average_local);
    same("transitivity", world.graph.clustering.transitivity);
    REQUIRE(world.edges == count_edges(list, directed));
  }
}
