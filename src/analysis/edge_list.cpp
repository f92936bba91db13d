#include "analysis/edge_list.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "analysis/attention_band.h"
#include "attention/counts.h"
#include "core/error.h"

namespace flywheel {
namespace {

constexpr double kMaxEdges = 1e8;

double expected_edges(const AttentionStack& stack, std::int64_t n) {
  double edges = 0;
  for (const LayerAttention& layer : stack.layers) {
    for (const AttentionPattern& path : paths_of(layer)) {
      edges += (mean_visible_keys(path, n) - 1) * static_cast<double>(n);
    }
  }
  return edges;
}

}  // namespace

EdgeList simplified(std::int64_t nodes, std::vector<std::pair<std::int64_t, std::int64_t>> edges) {
  EdgeList list{.nodes = nodes};
  const std::size_t given = edges.size();
  std::erase_if(edges, [](const auto& edge) { return edge.first == edge.second; });
  list.self_loops = static_cast<std::int64_t>(given - edges.size());
  std::sort(edges.begin(), edges.end());
  const auto end = std::unique(edges.begin(), edges.end());
  list.duplicates = edges.end() - end;
  edges.erase(end, edges.end());
  list.edges = std::move(edges);
  return list;
}

std::int64_t count_edges(const EdgeList& list, bool directed) {
  if (directed) return std::ssize(list.edges);
  return std::count_if(list.edges.begin(), list.edges.end(), [&](const auto& edge) {
    const auto& [source, target] = edge;
    return source < target ||
           !std::binary_search(list.edges.begin(), list.edges.end(), std::pair(target, source));
  });
}

EdgeList stack_edges(const AttentionStack& stack, std::int64_t n, std::uint64_t seed) {
  require(expected_edges(stack, n) <= kMaxEdges, ErrorKind::Config,
          "{}: the layers have some {:.2g} edges together, more than {:.0g}: take fewer tokens, "
          "layers or a smaller window",
          stack.name, expected_edges(stack, n), kMaxEdges);
  std::vector<std::pair<std::int64_t, std::int64_t>> edges;
  for (const LayerBands& layer : draw_bands(stack, n, seed, Mask::Causal)) {
    for (const AttentionBand& band : layer) {
      for (std::int64_t i = 0; i < n; ++i) {
        band.visit_keys(i, [&](std::int64_t j) {
          if (j != i) edges.emplace_back(i, j);
        });
      }
    }
  }
  EdgeList list = simplified(n, std::move(edges));
  list.duplicates = 0;  // of different layers, none of a layer
  return list;
}

AttentionStack stack_of_density(const std::string& pattern, AttentionConfig section,
                                std::int64_t layers, std::int64_t n, std::int64_t edges,
                                std::uint64_t seed) {
  const auto excess = [&](std::int64_t window) {
    section.window = window;
    const AttentionStack stack = uniform_stack(pattern, section, layers);
    return std::ssize(stack_edges(stack, n, seed).edges) - edges;
  };
  std::int64_t low = 1, high = n;  // excess(low) < 0 <= excess(high), or the ends
  while (high - low > 1) {
    const std::int64_t middle = std::midpoint(low, high);
    (excess(middle) < 0 ? low : high) = middle;
  }
  section.window = std::abs(excess(low)) < std::abs(excess(high)) ? low : high;
  AttentionStack stack = uniform_stack(pattern, section, layers);
  stack.name = fmt::format("{} w={}", pattern, section.window);
  return stack;
}

}  // namespace flywheel
