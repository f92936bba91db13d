"""Makes tests/golden/small_world.json: statistics of the larval connectome by networkx and scipy.

    python tests/oracle/small_world_golden.py larva_edges.csv > tests/golden/small_world.json
"""

import csv
import json
import sys

import networkx as nx
import numpy as np
from scipy.sparse.csgraph import shortest_path


def statistics(graph):
    """Of the largest weakly connected component."""
    directed = graph.is_directed()
    components = nx.weakly_connected_components(graph) if directed else nx.connected_components(graph)
    graph = graph.subgraph(max(components, key=len))
    plain = nx.Graph(graph)
    distances = shortest_path(nx.to_scipy_sparse_array(graph), directed=directed, unweighted=True)
    reached = distances[np.isfinite(distances) & (distances > 0)]
    n = graph.number_of_nodes()
    return {
        "nodes": n,
        "edges": graph.number_of_edges(),
        "probability": nx.density(graph),
        "path_length": float(reached.mean()),
        "reachable_pairs": len(reached) / (n * (n - 1)),
        "clustering": nx.average_clustering(plain),
        "transitivity": nx.transitivity(plain),
    }


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row[0] != "source"]
    edges = [(row[0], row[1]) for row in rows if row[0] != row[1]]
    result = {
        "undirected": statistics(nx.Graph(edges)),
        "directed": statistics(nx.DiGraph(edges)),
    }
    json.dump(result, sys.stdout, indent=2)
    print()


main()
