#pragma once

#include <array>
#include <cstdint>

#include "cuda/memory.h"

namespace flywheel::cuda {

// Copies to the device that the host does not wait for: through two halves of pinned memory by
// turns, each of which has room for what a micro-batch needs. A half is waited for only when it is
// needed again and its copies have not been made yet.
class Uploads {
 public:
  Uploads();
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // Queued on the stream; `from` may be reused on return.
  void queue(void* to, const void* from, std::int64_t bytes, const Stream& stream);

 private:
  struct Half {
    std::byte* data = nullptr;
    Event copied;
  };
  void turn(const Stream& stream);

  std::array<Half, 2> halves_;
  std::size_t current_ = 0;
  std::int64_t used_ = 0;  // bytes of the current half
};

}  // namespace flywheel::cuda
