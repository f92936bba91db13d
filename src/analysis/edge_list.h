#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "analysis/attention_stack.h"

namespace flywheel {

// A graph without self-loops and multiple edges, as it was read or built.
struct EdgeList {
  std::int64_t nodes = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> edges;  // source, target; sorted
  std::int64_t self_loops = 0;                               // that were left out
  std::int64_t duplicates = 0;                               // that were left out
};

// Sorts, and leaves out self-loops and repetitions of an edge.
EdgeList simplified(std::int64_t nodes, std::vector<std::pair<std::int64_t, std::int64_t>> edges);

// Undirected: an edge and its reverse count once.
std::int64_t count_edges(const EdgeList& list, bool directed);

// The union over the layers: from each query to every key that it sees but itself. Error Config if
// it might have more than 10^8 edges.
EdgeList stack_edges(const AttentionStack& stack, std::int64_t n, std::uint64_t seed);

// `section` with the window at which the union of the layers has about `edges` edges.
AttentionStack stack_of_density(const std::string& pattern, AttentionConfig section,
                                std::int64_t layers, std::int64_t n, std::int64_t edges,
                                std::uint64_t seed);

// CSV with the columns source, target and, unread, weight, in the order that the header gives; or
// without a header, then in this order and with integer ids. Error Data names the line at fault.
EdgeList read_edges(const std::filesystem::path& file);

}  // namespace flywheel
