#pragma once

#include <functional>

#include "cuda/memory.h"

namespace flywheel::cuda {

// Passes of one shape as a CUDA graph: each is captured and queued as a whole, which saves the
// launches' time on the host and the gaps between small kernels. Arguments of kernels may differ
// from pass to pass; where more does, the graph is made anew.
class PassGraph {
 public:
  PassGraph() = default;
  ~PassGraph();
  PassGraph(const PassGraph&) = delete;
  PassGraph& operator=(const PassGraph&) = delete;

  // The first pass runs uncaptured: it loads modules and chooses algorithms, which a capture does
  // not allow.
  void queue(const std::function<void()>& pass, const Stream& stream);

 private:
  void instantiate(cudaGraph_t graph);

  bool warm_ = false;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace flywheel::cuda
