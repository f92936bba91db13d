#include "cuda/graph.h"

#include "cuda/device/check.h"

namespace flywheel::cuda {
namespace {

// What is captured from a stream while it lives; nothing of it is kept if the pass fails.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin of a capture");
  }
  ~Capture() {
    if (!ended_) cudaStreamEndCapture(stream_, &graph_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraph_t end() {
    ended_ = true;
    check(cudaStreamEndCapture(stream_, &graph_), "end of a capture");
    return graph_;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

}  // namespace

PassGraph::~PassGraph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

void PassGraph::queue(const std::function<void()>& pass, const Stream& stream) {
  if (!warm_) {
    pass();
    warm_ = true;
    return;
  }
  Capture capture(stream.get());
  pass();
  instantiate(capture.end());
  check(cudaGraphLaunch(executable_, stream.get()), "launch of a graph");
}

void PassGraph::instantiate(cudaGraph_t graph) {
  if (executable_ != nullptr) {
    cudaGraphExecUpdateResultInfo result{};
    if (cudaGraphExecUpdate(executable_, graph, &result) == cudaSuccess) return;
    cudaGetLastError();
    check(cudaGraphExecDestroy(executable_), "end of a graph");
    executable_ = nullptr;
  }
  check(cudaGraphInstantiate(&executable_, graph, 0), "making a graph");
}

}  // namespace flywheel::cuda
