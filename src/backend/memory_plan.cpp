#include "backend/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace flywheel {
namespace {

constexpr std::int64_t kAlignment = 128;  // bytes

}  // namespace

int MemoryPlan::add(std::string name, std::int64_t bytes, Phases phases) {
  const std::int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  buffers_.push_back({std::move(name), rounded, phases, 0});
  return static_cast<int>(buffers_.size()) - 1;
}

void MemoryPlan::place() {
  std::vector<std::size_t> order(buffers_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return buffers_[a].bytes > buffers_[b].bytes;
  });
  std::vector<std::size_t> placed;
  for (const std::size_t number : order) {
    buffers_[number].offset = lowest_free_offset(number, placed);
    bytes_ = std::max(bytes_, buffers_[number].offset + buffers_[number].bytes);
    placed.push_back(number);
  }
}

std::int64_t MemoryPlan::lowest_free_offset(std::size_t buffer,
                                            const std::vector<std::size_t>& placed) const {
  std::vector<const Buffer*> rivals;
  for (const std::size_t other : placed) {
    if (buffers_[other].phases & buffers_[buffer].phases) rivals.push_back(&buffers_[other]);
  }
  std::sort(rivals.begin(), rivals.end(),
            [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; });
  std::int64_t offset = 0;
  for (const Buffer* rival : rivals) {
    if (rival->offset >= offset + buffers_[buffer].bytes) break;
    offset = std::max(offset, rival->offset + rival->bytes);
  }
  return offset;
}

}  // namespace flywheel
