#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flywheel {

// What a backend on a GPU takes for itself, besides what it is asked for.
constexpr std::int64_t kGpuWorkspaceBytes = std::int64_t{128} << 20;

// Places named buffers in one slab before anything is allocated. Buffers that are never alive in
// the same phase may overlap.
class MemoryPlan {
 public:
  using Phases = std::uint32_t;  // a bit for each phase in which a buffer's content counts
  static constexpr Phases kAlways = ~Phases{0};

  struct Buffer {
    std::string name;  // "activations: attention", shown to users
    std::int64_t bytes = 0;
    Phases phases = kAlways;
    std::int64_t offset = 0;
  };

  // The buffer's number.
  int add(std::string name, std::int64_t bytes, Phases phases = kAlways);
  // Gives every buffer its offset: the largest first, each at the lowest place that is free.
  void place();

  const Buffer& buffer(int number) const { return buffers_[static_cast<std::size_t>(number)]; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  std::int64_t bytes() const { return bytes_; }  // of the slab

 private:
  std::int64_t lowest_free_offset(std::size_t buffer, const std::vector<std::size_t>& placed) const;

  std::vector<Buffer> buffers_;
  std::int64_t bytes_ = 0;
};

}  // namespace flywheel
