#include "cuda/memory.h"

#include <chrono>
#include <thread>

#include "core/error.h"
#include "cuda/device/check.h"

namespace flywheel::cuda {
namespace {

double gibibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

}  // namespace

Memory::Memory(std::int64_t bytes, const std::string& name) : bytes_(bytes) {
  require(bytes >= 0, ErrorKind::Internal, "{}: {} bytes of memory asked for", name, bytes);
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  const cudaError_t status = cudaMalloc(&data_, size);
  if (status == cudaErrorMemoryAllocation) {
    std::size_t free = 0;
    std::size_t total = 0;
    cudaGetLastError();
    check(cudaMemGetInfo(&free, &total), "memory");
    fail(
        ErrorKind::Device,
        "{}: cannot get {:.3f} GiB of GPU memory; {:.1f} of {:.1f} GiB are free: make the model or "
        "the batch smaller",
        name, gibibytes(size), gibibytes(free), gibibytes(total));
  }
  check(status, "cudaMalloc");
}

Memory::~Memory() {
  cudaFree(data_);
}

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

// Returns when the query is not "not ready" any more.
template <class Query>
void Stream::watch_until(const Query& query) const {
  while (watch_ && query() == cudaErrorNotReady) {
    watch_();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void Stream::synchronize() const {
  watch_until([&] { return cudaStreamQuery(stream_); });
  check(cudaStreamSynchronize(stream_), "synchronize");
}

void Stream::wait(const Event& event) const {
  watch_until([&] { return cudaEventQuery(event.get()); });
  check(cudaEventSynchronize(event.get()), "cudaEventSynchronize");
}

Event::Event(Kind kind) {
  const unsigned flags = kind == Kind::Timed ? cudaEventDefault : cudaEventDisableTiming;
  check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreate");
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

void Event::record(cudaStream_t stream) const {
  check(cudaEventRecord(event_, stream), "cudaEventRecord");
}

bool Event::is_reached() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) return false;
  check(status, "cudaEventQuery");
  return true;
}

double Event::milliseconds_since(const Event& earlier) const {
  check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "cudaEventElapsedTime");
  return milliseconds;
}

}  // namespace flywheel::cuda
