#include "analysis/graph.h"

#include <igraph/igraph.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/philox.h"

namespace flywheel {
namespace {

void check(igraph_error_t code) {
  if (code == IGRAPH_SUCCESS) return;
  if (code == IGRAPH_ENOMEM) throw std::bad_alloc();
  fail(ErrorKind::Internal, "igraph: {}", igraph_strerror(code));
}

// A value of igraph's that is destroyed with the object.
template <class T, void (*destroy)(T*)>
struct Owned {
  Owned() = default;
  ~Owned() { destroy(&value); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T* operator&() { return &value; }  // NOLINT(google-runtime-operator): as igraph takes it
  T value{};
};
using IntegerVector = Owned<igraph_vector_int_t, igraph_vector_int_destroy>;
using Matrix = Owned<igraph_matrix_t, igraph_matrix_destroy>;

void seed_igraph(std::uint64_t seed) {
  check(igraph_rng_seed(igraph_rng_default(), seed));
}

// The first `count` of a random order of the nodes.
std::vector<igraph_integer_t> choose(std::int64_t nodes, std::int64_t count, std::uint64_t seed) {
  std::vector<igraph_integer_t> order(static_cast<std::size_t>(nodes));
  std::iota(order.begin(), order.end(), 0);
  const RandomSequence random(seed, RandomStream::kSampling);
  for (std::size_t k = 0; k < static_cast<std::size_t>(count) && count < nodes; ++k) {
    std::swap(order[k], order[k + random.below(k, order.size() - k)]);
  }
  order.resize(static_cast<std::size_t>(count));
  return order;
}

// Distances from some sources: of each, their sum and number, itself apart.
struct Distances {
  std::vector<double> sums;
  std::vector<double> counts;

  void add(const igraph_matrix_t& rows) {
    for (igraph_integer_t r = 0; r < igraph_matrix_nrow(&rows); ++r) {
      double sum = 0, count = 0;
      for (igraph_integer_t c = 0; c < igraph_matrix_ncol(&rows); ++c) {
        const double distance = MATRIX(rows, r, c);
        if (distance <= 0 || !std::isfinite(distance)) continue;
        sum += distance;
        count += 1;
      }
      sums.push_back(sum);
      counts.push_back(count);
    }
  }

  // The mean is a ratio of two sums over sources; its error that of a ratio estimator, with the
  // correction for a finite population.
  PathLength mean(double nodes) const {
    const auto m = static_cast<double>(sums.size());
    const double pairs = std::reduce(counts.begin(), counts.end());
    PathLength result{.mean = pairs > 0 ? std::reduce(sums.begin(), sums.end()) / pairs : 0,
                      .reachable = nodes > 1 ? pairs / (m * (nodes - 1)) : 1};
    if (m < 2 || m >= nodes || pairs == 0) return result;
    double squares = 0;
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const double residual = sums[k] - result.mean * counts[k];
      squares += residual * residual;
    }
    result.error = std::sqrt(squares / (m - 1) * m * (1 - m / nodes)) / pairs;
    return result;
  }
};

}  // namespace

struct Graph::Handle {
  // create(igraph_t*) makes the graph.
  template <class Create>
  explicit Handle(const Create& create) {
    igraph_set_error_handler(igraph_error_handler_ignore);
    check(create(&graph));
  }
  ~Handle() { igraph_destroy(&graph); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  igraph_t graph{};
};

Graph::Graph(std::unique_ptr<Handle> handle) : handle_(std::move(handle)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Graph::Graph(const EdgeList& edges, bool directed) {
  std::vector<igraph_integer_t> ends;
  ends.reserve(2 * edges.edges.size());
  for (const auto& [source, target] : edges.edges) ends.insert(ends.end(), {source, target});
  igraph_vector_int_t view;
  igraph_vector_int_view(&view, ends.data(), std::ssize(ends));
  handle_ = std::make_unique<Handle>(
      [&](igraph_t* graph) { return igraph_create(graph, &view, edges.nodes, directed); });
  if (!directed) check(igraph_simplify(&handle_->graph, true, true, nullptr));
}

Graph Graph::erdos_renyi(std::int64_t nodes, std::int64_t edges, bool directed,
                         std::uint64_t seed) {
  seed_igraph(seed);
  return Graph(std::make_unique<Handle>([&](igraph_t* graph) {
    return igraph_erdos_renyi_game_gnm(graph, nodes, edges, directed, false);
  }));
}

Graph Graph::copy() const {
  return Graph(std::make_unique<Handle>(
      [&](igraph_t* graph) { return igraph_copy(graph, &handle_->graph); }));
}

Graph Graph::rewired(std::uint64_t seed) const {
  constexpr std::int64_t kExchangesPerEdge = 10;
  Graph result = copy();
  seed_igraph(seed);
  // With fewer than four ends there is nothing to exchange, which igraph refuses.
  if (nodes() >= 4 && edges() >= 2) {
    check(
        igraph_rewire(&result.handle_->graph, kExchangesPerEdge * edges(), IGRAPH_REWIRING_SIMPLE));
  }
  return result;
}

Graph Graph::largest_component() const {
  IntegerVector membership, sizes;
  check(igraph_vector_int_init(&membership, 0));
  check(igraph_vector_int_init(&sizes, 0));
  check(igraph_connected_components(&handle_->graph, &membership, &sizes, nullptr, IGRAPH_WEAK));
  const igraph_integer_t largest = igraph_vector_int_which_max(&sizes);
  std::vector<igraph_integer_t> members;
  for (std::int64_t node = 0; node < nodes(); ++node) {
    if (VECTOR(membership.value)[node] == largest) members.push_back(node);
  }
  igraph_vector_int_t view;
  igraph_vector_int_view(&view, members.data(), std::ssize(members));
  return Graph(std::make_unique<Handle>([&](igraph_t* graph) {
    return igraph_induced_subgraph(&handle_->graph, graph, igraph_vss_vector(&view),
                                   IGRAPH_SUBGRAPH_AUTO);
  }));
}

bool Graph::directed() const {
  return igraph_is_directed(&handle_->graph);
}
std::int64_t Graph::nodes() const {
  return igraph_vcount(&handle_->graph);
}
std::int64_t Graph::edges() const {
  return igraph_ecount(&handle_->graph);
}

double Graph::connection_probability() const {
  const auto n = static_cast<double>(nodes());
  const double pairs = n * (n - 1) / (directed() ? 1 : 2);
  return pairs > 0 ? static_cast<double>(edges()) / pairs : 0;
}

std::vector<std::int64_t> Graph::degrees() const {
  IntegerVector degrees;
  check(igraph_vector_int_init(&degrees, 0));
  check(igraph_degree(&handle_->graph, &degrees, igraph_vss_all(), IGRAPH_ALL, false));
  const igraph_integer_t* first = VECTOR(degrees.value);
  return {first, first + igraph_vector_int_size(&degrees)};
}

PathLength Graph::path_length(std::int64_t sources, std::uint64_t seed,
                              const Progress& progress) const {
  constexpr std::int64_t kBatch = 64;
  const auto chosen = choose(nodes(), std::min(sources, nodes()), seed);
  Distances distances;
  Matrix rows;
  check(igraph_matrix_init(&rows, 0, 0));
  for (std::int64_t begin = 0; begin < std::ssize(chosen); begin += kBatch) {
    igraph_vector_int_t batch;
    igraph_vector_int_view(&batch, chosen.data() + begin,
                           std::min(kBatch, std::ssize(chosen) - begin));
    check(igraph_distances(&handle_->graph, &rows, igraph_vss_vector(&batch), igraph_vss_all(),
                           IGRAPH_OUT));
    distances.add(rows.value);
    if (progress) progress(std::ssize(distances.sums), std::ssize(chosen));
  }
  return distances.mean(static_cast<double>(nodes()));
}

Clustering Graph::clustering() const {
  const Graph plain = copy();
  igraph_t* graph = &plain.handle_->graph;
  if (directed()) check(igraph_to_undirected(graph, IGRAPH_TO_UNDIRECTED_COLLAPSE, nullptr));
  Clustering result;
  check(igraph_transitivity_avglocal_undirected(graph, &result.average_local,
                                                IGRAPH_TRANSITIVITY_ZERO));
  check(igraph_transitivity_undirected(graph, &result.transitivity, IGRAPH_TRANSITIVITY_ZERO));
  return result;
}

}  // namespace flywheel
