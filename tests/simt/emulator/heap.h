#pragma once

#include <cstddef>

namespace simt {

// Device memory is accessible while one of these lives; without config.host_guard, always.
class HeapAccess {
 public:
  HeapAccess();
  ~HeapAccess();
  HeapAccess(const HeapAccess&) = delete;
  HeapAccess& operator=(const HeapAccess&) = delete;
};

struct HeapBlock {
  char* data = nullptr;
  std::size_t bytes = 0;
  bool live = false;
};
// The allocation at or before the address; `data` is null if there is none.
HeapBlock find_allocation(const void* address);

}  // namespace simt
