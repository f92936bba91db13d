#include "simt/emulator/streams.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "simt/emulator/heap.h"
#include "simt/emulator/launch.h"

namespace simt {

struct Event {
  std::uint64_t recorded = 0;  // times that cudaEventRecord was called
  std::uint64_t reached = 0;   // the last of them that its stream reached
  double time = 0;             // when that was
};

struct StreamOp {
  std::function<void()> work;
  const Event* wait = nullptr;
  std::uint64_t until = 0;
  std::function<bool()> ready;  // of an op that waits for other processes

  bool is_able() const { return (!wait || wait->reached >= until) && (!ready || ready()); }
};

struct Graph {
  std::vector<StreamOp> ops;
};

struct Stream {
  std::deque<StreamOp> queue;
  bool blocking = true;
  std::unique_ptr<Graph> capture;  // while it is captured
  bool capture_valid = true;
};

namespace {

using Clock = std::chrono::steady_clock;

Stream default_stream;
std::vector<Stream*> streams{&default_stream};
std::recursive_mutex device;
int collectives = 0;  // that are queued
Clock::time_point last_call{};
std::uint64_t draws = 0;
std::uint64_t waits = 0;
std::uint64_t launches = 0;  // of graphs
double clock_nanoseconds = 0;
cudaError_t sticky = cudaSuccess;

std::uint64_t draw() {
  std::uint64_t x = (config.seed + ++draws) * 0x9e3779b97f4a7c15ULL;
  x ^= x >> 29;
  return x * 0xbf58476d1ce4e5b9ULL >> 32;
}

void perform(const StreamOp& op) {
  const HeapAccess access;
  if (op.work) op.work();
}

// Runs one op of a stream that can go on, drawn at random; false if there is none.
bool step() {
  std::vector<Stream*> able;
  for (Stream* stream : streams) {
    if (!stream->queue.empty() && stream->queue.front().is_able()) able.push_back(stream);
  }
  if (able.empty()) return false;
  Stream& stream = *able[draw() % able.size()];
  const StreamOp op = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (op.ready) --collectives;
  perform(op);
  return true;
}

// Whether the condition holds, after a step towards it if it did not.
template <class Condition>
bool step_towards(const Condition& condition) {
  const DeviceLock lock;
  last_call = Clock::now();
  if (condition()) return true;
  if (!step() && collectives == 0) fail("streams wait for an event that is never recorded");
  return condition();
}

template <class Condition>
void run_until(const Condition& condition) {
  while (!step_towards(condition)) {
    if (collectives > 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

bool all_idle() {
  return std::all_of(streams.begin(), streams.end(),
                     [](const Stream* stream) { return stream->queue.empty(); });
}

// The default stream orders against all streams that are not non-blocking.
void push(Stream* stream, StreamOp op) {
  const DeviceLock lock;
  last_call = Clock::now();
  if (stream && stream->capture) {
    stream->capture->ops.push_back(std::move(op));
    return;
  }
  if (!stream) stream = &default_stream;
  if (stream == &default_stream) {
    run_until(all_idle);
  } else if (stream->blocking) {
    run_until([] { return default_stream.queue.empty(); });
  }
  if (op.ready) ++collectives;
  stream->queue.push_back(std::move(op));
  while (!config.defer_streams && step()) {
  }
}

// Goes on with the streams where ranks wait for each other while the host does something else.
class Progress {
 public:
  Progress() : thread_([this] { loop(); }) {}
  ~Progress() {
    quit_ = true;
    thread_.join();
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void loop() const {
    constexpr std::chrono::milliseconds kPause{2};
    for (; !quit_; std::this_thread::sleep_for(kPause / 4)) {
      const DeviceLock lock;
      if (collectives == 0 || Clock::now() - last_call < kPause) continue;
      while (step()) {
      }
    }
  }

  std::atomic<bool> quit_{false};
  std::thread thread_;
};

}  // namespace

DeviceLock::DeviceLock() {
  device.lock();
}
DeviceLock::~DeviceLock() {
  device.unlock();
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  push(stream, {.work = std::move(work), .ready = {}});
}

void enqueue_when(cudaStream_t stream, std::function<bool()> ready, std::function<void()> work) {
  static const Progress progress;
  push(stream, {.work = std::move(work), .ready = std::move(ready)});
}

void fail_device(cudaError_t status) {
  sticky = status;
}
bool device_failed() {
  return sticky != cudaSuccess;
}
void drain_streams() {
  run_until(all_idle);
}
bool interrupts_capture() {
  bool any = false;
  for (Stream* stream : streams) {
    if (!stream->capture) continue;
    stream->capture_valid = false;
    any = true;
  }
  return any;
}
std::uint64_t graph_launches() {
  return launches;
}
std::uint64_t host_waits() {
  return waits;
}
void pass_time(double nanoseconds) {
  clock_nanoseconds += nanoseconds;
}

}  // namespace simt

using namespace simt;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  const DeviceLock lock;
  *stream = new Stream;
  (*stream)->blocking = (flags & cudaStreamNonBlocking) == 0;
  streams.push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  run_until([&] { return stream->queue.empty(); });
  const DeviceLock lock;
  std::erase(streams, stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (interrupts_capture()) return cudaErrorStreamCaptureUnsupported;
  ++waits;
  const Stream* waited = stream ? stream : &default_stream;
  run_until([&] { return waited->queue.empty(); });
  return sticky;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const DeviceLock lock;
  last_call = Clock::now();
  step();
  const Stream* asked = stream ? stream : &default_stream;
  return asked->queue.empty() ? sticky : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  push(stream, {.work = {}, .wait = event, .until = event->recorded, .ready = {}});
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (interrupts_capture()) return cudaErrorStreamCaptureUnsupported;
  ++waits;
  drain_streams();
  return sticky;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new Event;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  drain_streams();
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const DeviceLock lock;
  const std::uint64_t version = ++event->recorded;
  enqueue(stream, [=] {
    event->reached = version;
    event->time = clock_nanoseconds;
  });
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (interrupts_capture()) return cudaErrorStreamCaptureUnsupported;
  if (event->reached < event->recorded) ++waits;
  run_until([&] { return event->reached >= event->recorded; });
  return sticky;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin->reached == 0 || end->reached == 0) return cudaErrorInvalidValue;
  *milliseconds = static_cast<float>((end->time - begin->time) / 1e6);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const DeviceLock lock;
  last_call = Clock::now();
  step();
  return event->reached >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (stream->capture) return cudaErrorInvalidValue;
  stream->capture = std::make_unique<Graph>();
  stream->capture_valid = true;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!stream->capture) return cudaErrorInvalidValue;
  const std::unique_ptr<Graph> captured = std::move(stream->capture);
  if (!stream->capture_valid) return cudaErrorStreamCaptureInvalidated;
  *graph = new Graph(*captured);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *executable = new Graph(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* /*result*/) {
  if (executable->ops.size() != graph->ops.size()) return cudaErrorGraphExecUpdateFailure;
  *executable = *graph;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  ++launches;
  for (const StreamOp& op : executable->ops) push(stream, op);
  return sticky;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = config.devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device >= 0 && device < config.devices ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetLastError() {
  return std::exchange(sticky, cudaSuccess);
}

const char* cudaGetErrorString(cudaError_t status) {
  static thread_local std::string report;
  switch (status) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      report = peek_error();
      return report.c_str();
    case cudaErrorStreamCaptureUnsupported:
      return "a stream is captured, which this call does not allow";
    case cudaErrorStreamCaptureInvalidated:
      return "the capture of a stream was interrupted";
    case cudaErrorGraphExecUpdateFailure:
      return "the graph has other nodes";
    case cudaErrorInvalidValue:
      break;
  }
  return "invalid argument";
}
