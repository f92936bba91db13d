#include "cuda/uploads.h"

#include <algorithm>
#include <cstring>

#include "cuda/device/check.h"

namespace flywheel::cuda {
namespace {

// Tokens, targets and positions of 65536 tokens, and the plans of 24 sa layers: 14 MiB.
constexpr std::int64_t kHalfBytes = std::int64_t{32} << 20;

}  // namespace

Uploads::Uploads() {
  for (Half& half : halves_) {
    void* data = nullptr;
    check(cudaMallocHost(&data, kHalfBytes), "pinned memory for uploads");
    half.data = static_cast<std::byte*>(data);
  }
}

Uploads::~Uploads() {
  for (const Half& half : halves_) cudaFreeHost(half.data);
}

void Uploads::turn(const Stream& stream) {
  halves_[current_].copied.record(stream.get());
  current_ = 1 - current_;
  used_ = 0;
  stream.wait(halves_[current_].copied);
}

void Uploads::queue(void* to, const void* from, std::int64_t bytes, const Stream& stream) {
  for (std::int64_t done = 0; done < bytes;) {
    if (used_ == kHalfBytes) turn(stream);
    const std::int64_t part = std::min(bytes - done, kHalfBytes - used_);
    std::byte* pinned = halves_[current_].data + used_;
    std::memcpy(pinned, static_cast<const std::byte*>(from) + done, static_cast<std::size_t>(part));
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, pinned,
                          static_cast<std::size_t>(part), cudaMemcpyHostToDevice, stream.get()),
          "upload");
    used_ += part;
    done += part;
  }
}

}  // namespace flywheel::cuda
